"""`tritium explore`: a kernel's way from source to machine code as one HTML file."""
