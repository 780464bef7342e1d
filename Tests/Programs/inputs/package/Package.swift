// swift-tools-version: 5.9
import PackageDescription

let package = Package(
    name: "package",
    products: [.executable(name: "draw", targets: ["draw"]), .library(name: "Shapes", targets: ["Shapes"])],
    targets: [
        .target(name: "CSupport"),
        .target(name: "Shapes", dependencies: ["CSupport"]),
        .executableTarget(name: "draw", dependencies: ["Shapes"]),
    ]
)
