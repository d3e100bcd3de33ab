from proximo.training.encoding import decode, decode_fields, encode, encode_fields, register_class, register  # noqa
