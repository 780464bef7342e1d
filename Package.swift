// swift-tools-version: 6.0
import PackageDescription

// The one place where the version stands; the C targets are compiled with it, and zguard asks CSystem.
let version = "0.1.0"
let versionSetting = CSetting.define("ZG_VERSION", to: "\"\(version)\"")

// The folders of Sources/ZombieGuard are layers. The lower ones, which is all that a guarded test bundle needs, are a module of their own.
let lowerFolders = ["System", "Names", "Findings", "Symbols", "Watched", "Text", "InProcess"]
let upperFolders = [
    "Compressed", "Processes", "Suppressions", "Groups", "Formats", "Store", "Fleet", "Serve", "History",
    "ZombieGuard.docc",
]

let package = Package(
    name: "ZombieGuard",
    products: [
        .library(name: "ZombieGuard", targets: ["ZombieGuard"]),
        .library(name: "ZombieGuardTesting", targets: ["ZombieGuardTesting"]),
        .executable(name: "zguard", targets: ["zguard"]),
        .plugin(name: "ZGuardTest", targets: ["ZGuardTest"]),
        .plugin(name: "ZGuardRun", targets: ["ZGuardRun"]),
    ],
    targets: [
        // The runtime. `zguard` links it for its tables and the option parser only; what takes over malloc is CZombiePublish.
        .target(name: "CZombie", cSettings: [versionSetting, .headerSearchPath(".")]),
        .target(
            name: "CZombiePublish", dependencies: ["CZombie"],
            cSettings: [versionSetting, .headerSearchPath("../CZombie")]),
        // Headers alone: nothing has to be installed, and nothing is compiled.
        .systemLibrary(name: "CDwarf"),
        .systemLibrary(name: "CZlib"),
        // Threads that are stopped, and their stacks; libunwind, for those of other processes, is opened where it is installed.
        .target(name: "CUnwind"),
        .target(
            name: "CSystem",
            cSettings: [.define("_GNU_SOURCE"), versionSetting],
            linkerSettings: [.linkedLibrary("stdc++")]),
        .target(
            name: "ZombieGuardCore", dependencies: ["CZombie", "CDwarf", "CSystem", "CUnwind"],
            path: "Sources/ZombieGuard",
            exclude: upperFolders),
        .target(
            name: "ZombieGuard", dependencies: ["ZombieGuardCore", "CZombie", "CZlib", "CSystem", "CUnwind"],
            exclude: lowerFolders),
        // Linking it guards a test bundle: the published malloc is the executable's own, which comes first everywhere.
        .target(name: "CZombieTesting", dependencies: ["CZombie", "CZombiePublish"]),
        .target(name: "ZombieGuardToolchain"),
        .target(
            name: "ZombieGuardTesting",
            dependencies: ["ZombieGuardCore", "ZombieGuardToolchain", "CZombie", "CSystem", "CZombieTesting"]),
        // Of the program alone, which is to run with older C libraries than the one that it is linked with.
        .target(name: "COlderLibc"),
        .executableTarget(name: "zguard", dependencies: ["ZombieGuard", "CSystem", "COlderLibc"]),
        // They build zguard when they need it; as a dependency it would be built even where one is installed.
        .plugin(
            name: "ZGuardTest",
            capability: .command(
                intent: .custom(verb: "zguard-test", description: "build the package's tests and run them guarded"))),
        .plugin(
            name: "ZGuardRun",
            capability: .command(
                intent: .custom(
                    verb: "zguard-run", description: "build an executable of the package and run it guarded"))),
        .testTarget(
            name: "ZombieGuardTests", dependencies: ["ZombieGuard", "ZombieGuardCore", "zguard", "CZombie", "CSystem"]),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c17
)
