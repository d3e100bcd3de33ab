from proximo.training.archive import read_archive, write_archive  # noqa
