"""The package name of http-parser 0.9; see http_parser.http."""
