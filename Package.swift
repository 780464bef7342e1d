// swift-tools-version: 6.0
import PackageDescription

// The only definition of the version. C targets get it as a macro; zguard reads it from CSystem.
let version = "1.0.0"
let versionSetting = CSetting.define("ZG_VERSION", to: "\"\(version)\"")

// The folders of Sources/ZombieGuard are layers. The lower layers form the module ZombieGuardCore, because a guarded
// test bundle needs only them.
let lowerFolders = ["System", "Names", "Findings", "Symbols", "Watched", "Text", "InProcess"]
let upperFolders = [
    "Compressed", "Coverage", "Processes", "Suppressions", "Groups", "Formats", "Store", "History", "ZombieGuard.docc",
]

let package = Package(
    name: "ZombieGuard",
    products: [
        .library(name: "ZombieGuard", targets: ["ZombieGuard"]),
        .library(name: "ZombieGuardTesting", targets: ["ZombieGuardTesting"]),
        .library(name: "ZombieGuardLinked", targets: ["CZombieStatic"]),
        .executable(name: "zguard", targets: ["zguard"]),
        .plugin(name: "ZGuardTest", targets: ["ZGuardTest"]),
        .plugin(name: "ZGuardRun", targets: ["ZGuardRun"]),
    ],
    targets: [
        // The runtime. zguard links it only for its tables and the option parser; CZombiePublish interposes malloc.
        .target(name: "CZombie", exclude: ["README.md"], cSettings: [versionSetting, .headerSearchPath(".")]),
        .target(
            name: "CZombiePublish", dependencies: ["CZombie"],
            cSettings: [versionSetting, .define("ZG_IN_BUNDLE"), .headerSearchPath("../CZombie")]),
        // Compiles the sources of the runtime and of the published functions a second time, through symbolic links, for
        // static executables. Never linked together with the targets above.
        .target(
            name: "CZombieStatic", exclude: ["runtime/README.md", "runtime/include", "published/include"],
            cSettings: [
                versionSetting, .define("ZG_STATIC"), .define("ZG_IN_BUNDLE"), .headerSearchPath("."),
                .headerSearchPath("../CZombie"), .headerSearchPath("../CZombiePublish"),
                .headerSearchPath("../CZombiePublish/include"),
            ]),
        // Header-only: there is nothing to install or compile.
        .systemLibrary(name: "CDwarf"),
        .systemLibrary(name: "CZlib"),
        // Stops threads and reads their stacks. Stacks of other processes need libunwind, which is loaded with dlopen
        // if installed.
        .target(name: "CUnwind"),
        .target(
            name: "CSystem",
            cSettings: [.define("_GNU_SOURCE"), versionSetting],
            linkerSettings: [.linkedLibrary("stdc++")]),
        .target(
            name: "ZombieGuardCore", dependencies: ["CZombie", "CDwarf", "CSystem", "CUnwind"],
            path: "Sources/ZombieGuard",
            exclude: upperFolders + ["README.md"]),
        .target(
            name: "ZombieGuard", dependencies: ["ZombieGuardCore", "CZombie", "CZlib", "CSystem", "CUnwind"],
            exclude: lowerFolders + ["README.md"]),
        // Features that only some users need. No other library target depends on these three.
        .target(
            name: "ZombieGuardStalls",
            dependencies: ["ZombieGuard", "ZombieGuardCore", "CZombie", "CSystem", "CUnwind"]),
        .target(name: "ZombieGuardFleet", dependencies: ["ZombieGuard", "ZombieGuardCore", "CZlib", "CSystem"]),
        .target(
            name: "ZombieGuardGraph",
            dependencies: ["ZombieGuard", "ZombieGuardCore", "CZombie", "CSystem", "CUnwind"]),
        // Linking this target guards a test bundle: malloc becomes a symbol of the executable, which precedes all
        // libraries in symbol search order.
        .target(name: "CZombieTesting", dependencies: ["CZombie", "CZombiePublish"]),
        .target(name: "ZombieGuardToolchain"),
        .target(
            name: "ZombieGuardTesting",
            dependencies: ["ZombieGuardCore", "ZombieGuardToolchain", "CZombie", "CSystem", "CZombieTesting"]),
        // Lets zguard run with older C libraries than the one with which it was linked.
        .target(name: "COlderLibc"),
        .executableTarget(
            name: "zguard",
            dependencies: [
                "ZombieGuard", "ZombieGuardCore", "ZombieGuardStalls", "ZombieGuardFleet", "ZombieGuardGraph",
                "CSystem", "COlderLibc",
            ]),
        // The plugins build zguard on demand. As a dependency it would be built even where zguard is installed.
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
            name: "ZombieGuardTests",
            dependencies: [
                "ZombieGuard", "ZombieGuardCore", "ZombieGuardStalls", "ZombieGuardFleet", "zguard", "CZombie",
                "CSystem",
            ]),
        // For Tests/Graph/edges.py.
        .executableTarget(
            name: "ObjectEdges", dependencies: ["ZombieGuardGraph", "ZombieGuard"], path: "Tests/Graph/ObjectEdges"),
        .testTarget(name: "ZombieGuardGraphTests", dependencies: ["ZombieGuardGraph", "ZombieGuard", "CZombie"]),
        .testTarget(
            name: "ZombieGuardFleetTests", dependencies: ["ZombieGuardFleet", "ZombieGuard", "ZombieGuardCore"]),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .c17
)
