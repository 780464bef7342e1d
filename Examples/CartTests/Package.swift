// swift-tools-version: 6.0
import PackageDescription

// Tests guarded by ZombieGuard. Run them from this directory:
//   swift test --filter PassingTests     all pass
//   swift test --filter FailingTests     all fail because a zombie is touched; read the failure messages
//   swift test --filter MisuseTests      all fail because the helpers are used incorrectly
let package = Package(
    name: "CartTests",
    dependencies: [.package(name: "ZombieGuard", path: "../..")],
    targets: [
        .target(name: "Shop"),
        .testTarget(
            name: "PassingTests",
            dependencies: [
                "Shop", .product(name: "ZombieGuardTesting", package: "ZombieGuard"),
                .product(name: "ZombieGuard", package: "ZombieGuard"),
            ]),
        .testTarget(
            name: "FailingTests",
            dependencies: ["Shop", .product(name: "ZombieGuardTesting", package: "ZombieGuard")]),
        .testTarget(
            name: "MisuseTests",
            dependencies: ["Shop", .product(name: "ZombieGuardTesting", package: "ZombieGuard")]),
    ],
    swiftLanguageModes: [.v6]
)
