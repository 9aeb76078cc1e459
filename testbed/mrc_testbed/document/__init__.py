"""Files as people write them: safe YAML, one envelope, and errors with file, line, key and the nearest name.

Pure but for reading the file. What a spec means is the business of the packages whose models are passed in.
"""
