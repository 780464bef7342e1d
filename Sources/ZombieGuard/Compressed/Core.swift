// One import for those who use the library: what the lower folders have is a module only so that a test bundle compiles no more than that.

@_exported import ZombieGuardCore
