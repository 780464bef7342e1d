// Re-exports ZombieGuardCore, so that users of the library need one import. ZombieGuardCore consists of the layers
// below this folder; it is a module of its own, so that a test bundle can compile it alone.

@_exported import ZombieGuardCore
