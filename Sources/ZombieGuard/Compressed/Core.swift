// Re-exports ZombieGuardCore, so that users of the library need one import. The lower folders are a module of their own
// only so that a test bundle can compile them alone.

@_exported import ZombieGuardCore
