// swift-tools-version: 6.0
import PackageDescription

let package = Package(
    name: "CartTests",
    dependencies: [.package(name: "ZombieGuard", path: "../..")],
    targets: [
        .target(name: "Shop"),
        .testTarget(
            name: "ShopTests",
            dependencies: ["Shop", .product(name: "ZombieGuardTesting", package: "ZombieGuard")]),
    ],
    swiftLanguageModes: [.v6]
)
