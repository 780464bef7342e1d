// swift-tools-version: 6.0
import PackageDescription

let package = Package(
    name: "tested",
    products: [.library(name: "Library", targets: ["Library"])],
    targets: [
        .target(name: "Library"),
        .testTarget(name: "LibraryTests", dependencies: ["Library"]),
        .testTarget(name: "OlderTests", dependencies: ["Library"]),
    ]
)
