import Shapes

let canvas = Canvas(width: 60, height: 16)
let shape = Circle(x: 20, y: 8, radius: 14) ^ Circle(x: 36, y: 8, radius: 14)
canvas.draw(shape, with: "#")
print(canvas.title(shape))
print(canvas.text)
