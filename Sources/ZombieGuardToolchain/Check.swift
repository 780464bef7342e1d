// Reports in one error that the toolchain lacks Swift Testing for this build, before each file that imports Testing
// fails.
// A separate module, because it must be compiled first. Toolchains contain Swift Testing and XCTest only as dynamic
// libraries, which conflict with a statically linked Swift runtime in the same process.

#if !canImport(Testing)
#error(
    "ZombieGuardTesting needs Swift Testing, which is a dynamic library: build the tests without --static-swift-stdlib")
#endif
