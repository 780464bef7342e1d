// Whether the toolchain can build tests as it was asked to: said in one line here, before the files that import Testing fail one by one.
// A module of its own, which is compiled first. Toolchains have Swift Testing and XCTest as dynamic libraries only, and two copies of
// Swift's runtime in one process, one of them static, do not get along.

#if !canImport(Testing)
#error(
    "ZombieGuardTesting needs Swift Testing, which is a dynamic library: build the tests without --static-swift-stdlib")
#endif
