// Re-exports ZombieGuardCore, so that users of the library need one import. The folders below this one in the layering
// are a separate module, so that a test bundle can compile them alone.

@_exported import ZombieGuardCore
