// Reports with one error that this build cannot use the toolchain's Swift Testing. Without this module, each file that
// imports Testing would fail with an error of its own.
// This is a separate module, because it must be compiled first. Toolchains contain Swift Testing and XCTest only as
// dynamic libraries, which conflict with a statically linked Swift runtime in the same process.

#if !canImport(Testing)
#error(
    "ZombieGuardTesting needs Swift Testing, which is a dynamic library: build the tests without --static-swift-stdlib")
#endif
