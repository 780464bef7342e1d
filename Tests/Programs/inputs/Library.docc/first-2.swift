import Library

let library = Library()
library.add("one")
