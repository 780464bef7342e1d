// swift-tools-version: 6.0
import PackageDescription

// The one place where the version stands; the C targets are compiled with it, and zguard asks CSystem.
let version = "0.1.0"
let versionSetting = CSetting.define("ZG_VERSION", to: "\"\(version)\"")

let package = Package(
    name: "ZombieGuard",
    products: [
        .library(name: "ZombieGuard", targets: ["ZombieGuard"]),
        .library(name: "ZombieGuardTesting", targets: ["ZombieGuardTesting"]),
        .executable(name: "zguard", targets: ["zguard"]),
    ],
    targets: [
        // The runtime. `zguard` links it for its tables and the option parser only; what takes over malloc is CZombiePublish.
        .target(name: "CZombie", cSettings: [versionSetting, .headerSearchPath(".")]),
        .target(
            name: "CZombiePublish", dependencies: ["CZombie"],
            cSettings: [versionSetting, .headerSearchPath("../CZombie")]),
        .systemLibrary(name: "CDwarf", pkgConfig: "libdw", providers: [.apt(["libdw-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .target(
            name: "CSystem",
            cSettings: [.define("_GNU_SOURCE"), versionSetting],
            linkerSettings: [.linkedLibrary("stdc++")]),
        .target(name: "ZombieGuard", dependencies: ["CZombie", "CDwarf", "CZlib", "CSystem"]),
        // Linking it guards a test bundle: the published malloc is the executable's own, which comes first everywhere.
        .target(name: "CZombieTesting", dependencies: ["CZombie", "CZombiePublish"]),
        .target(name: "ZombieGuardTesting", dependencies: ["ZombieGuard", "CZombie", "CSystem", "CZombieTesting"]),
        .executableTarget(name: "zguard", dependencies: ["ZombieGuard", "CSystem"]),
        .testTarget(name: "ZombieGuardTests", dependencies: ["ZombieGuard", "zguard", "CZombie", "CSystem"]),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c17
)
