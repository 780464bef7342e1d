import Library

let library = Library()
