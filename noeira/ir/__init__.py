"""What a program is: types, graphs, operations, their text and their plan. Imports nothing else of
noeira.
"""
