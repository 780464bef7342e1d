// Re-exports the types that the helpers return and take, so that a test needs one import, also with the upcoming
// feature MemberImportVisibility. The rest of ZombieGuardCore is not re-exported: its names (Coverage, Address, …)
// could be ambiguous with those of a module under test.

@_exported import struct ZombieGuardCore.Finding
@_exported import struct ZombieGuardCore.LiveObject
@_exported import enum ZombieGuardCore.ZombieGuard
