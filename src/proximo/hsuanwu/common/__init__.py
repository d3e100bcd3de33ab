"""What learners and trainers share."""
