// swift-tools-version: 6.0
import PackageDescription

// Tests guarded by ZombieGuard. Run them from this directory:
//   swift test --filter PassingTests     all pass
//   swift test --filter FailingTests     all fail because a zombie is touched; read the failure messages
//   swift test --filter MisuseTests      all fail because the helpers are used incorrectly

// The helpers compile with every upcoming feature of Swift 6.0 to 6.3.
let settings: [SwiftSetting] = [
    "ExistentialAny", "ImmutableWeakCaptures", "InferIsolatedConformances", "InternalImportsByDefault",
    "MemberImportVisibility", "NonisolatedNonsendingByDefault",
].map { .enableUpcomingFeature($0) }

let package = Package(
    name: "CartTests",
    dependencies: [.package(name: "ZombieGuard", path: "../..")],
    targets: [
        .target(name: "Shop", swiftSettings: settings),
        .testTarget(
            name: "PassingTests",
            dependencies: [
                "Shop", .product(name: "ZombieGuardTesting", package: "ZombieGuard"),
                .product(name: "ZombieGuard", package: "ZombieGuard"),
            ], swiftSettings: settings),
        .testTarget(
            name: "FailingTests",
            dependencies: ["Shop", .product(name: "ZombieGuardTesting", package: "ZombieGuard")],
            swiftSettings: settings),
        .testTarget(
            name: "MisuseTests",
            dependencies: ["Shop", .product(name: "ZombieGuardTesting", package: "ZombieGuard")],
            swiftSettings: settings),
    ],
    swiftLanguageModes: [.v6]
)
