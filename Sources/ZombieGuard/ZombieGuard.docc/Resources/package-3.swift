// swift-tools-version: 6.0
import PackageDescription

let package = Package(
    name: "Shop",
    dependencies: [.package(url: "https://example.com/ZombieGuard.git", from: "1.0.0")],
    targets: [
        .target(name: "Shop"),
        .testTarget(
            name: "ShopTests",
            dependencies: [
                "Shop", .product(name: "ZombieGuardTesting", package: "ZombieGuard"),
            ]),
    ]
)
