"""Samples of the program counter (`mode="pcsampling"`), by CUPTI's own library."""
