"""What is saved: model files, the state of a training, files of other libraries, what a file holds."""
