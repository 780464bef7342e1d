// swift-tools-version: 6.0
import PackageDescription

// Tests that are guarded by ZombieGuard. Run them from this directory:
//   swift test --filter PassingTests     all pass
//   swift test --filter FailingTests     all fail, because a zombie is touched; see what the failures say
//   swift test --filter MisuseTests      all fail, because the helpers are told something that is not so
let package = Package(
    name: "CartTests",
    dependencies: [.package(name: "ZombieGuard", path: "../..")],
    targets: [
        .target(name: "Shop"),
        .testTarget(
            name: "PassingTests",
            dependencies: ["Shop", .product(name: "ZombieGuardTesting", package: "ZombieGuard")]),
        .testTarget(
            name: "FailingTests",
            dependencies: ["Shop", .product(name: "ZombieGuardTesting", package: "ZombieGuard")]),
        .testTarget(
            name: "MisuseTests",
            dependencies: ["Shop", .product(name: "ZombieGuardTesting", package: "ZombieGuard")]),
    ],
    swiftLanguageModes: [.v6]
)
