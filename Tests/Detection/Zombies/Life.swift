// Errors that make the Swift runtime itself abort: self escapes from deinit, an unowned reference outlives its object,
// and accesses overlap (exclusivity violations).

import Foundation

final class Phoenix {
    var ashes = 1
    deinit {
        if fate != .kept { kept.append(self) }
    }
}

final class Hydra {
    var heads = 1
    deinit { grow() }
    @inline(never)
    func grow() {
        if fate != .kept { kept += [self, self, self] }
    }
}

final class Meter {
    var value = 1
    @inline(never)
    func adjust(_ change: (inout Int) -> Void) { change(&value) }
}

final class Lamp {
    unowned var meter: Meter
    init(_ meter: Meter) { self.meter = meter }
}

nonisolated(unsafe) var level = 3

// case: A deinit stores self in a global array.
// class: Shop.Phoenix
// access: retain
// detail: references=1
// frame: letGoOf|resurrected
// free: none
@inline(never)
func resurrected() {
    letGoOf(makePhoenix)
    done(1)
}

// case: A method that the deinit calls stores self three times in a global array.
// class: Shop.Hydra
// access: retain
// detail: operation=escape from deinit
// frame: letGoOf|resurrectedByMethod
// free: none
@inline(never)
func resurrectedByMethod() {
    letGoOf(makeHydra)
    done(1)
}

// case: An unowned property is read after its target was deinitialized.
// class: Shop.Meter
// access: read
// detail: operation=unowned reference
// free: none
@inline(never)
func unownedOutlives() {
    let meter = makeMeter()
    let lamp = Lamp(meter)
    kept.append(lamp)
    drop(meter)
    done(lamp.meter.value)
}

// case: A property is read while it is being modified.
// finds: exclusivity
// class: Shop.Meter
// access: read
// member: value
// detail: previous=write
// free: none
@inline(never)
func overlappingRead() {
    let meter = makeMeter()
    meter.adjust { $0 += fate == .kept ? 1 : meter.value }
    done(meter.value)
}

// case: A property is modified while it is being modified.
// finds: exclusivity
// class: Shop.Meter
// access: write
// member: value
// detail: previous=write
// free: none
@inline(never)
func overlappingWrite() {
    let meter = makeMeter()
    meter.adjust { value in
        if fate != .kept { meter.value += 1 }
        value += 1
    }
    done(meter.value)
}

// case: A global variable is modified while it is passed inout to a function.
// finds: exclusivity
// class: -
// access: write
// detail: previous=write
// free: none
// alloc: *
@inline(never)
func overlappingGlobal() {
    change(&level) {
        if fate != .kept { level += 1 }
    }
    done(level)
}

// MARK: helpers

@inline(never)
@_optimize(none)
func makePhoenix() -> AnyObject { Phoenix() }

@inline(never)
@_optimize(none)
func makeHydra() -> AnyObject { Hydra() }

@inline(never)
@_optimize(none)
func makeMeter() -> Meter { Meter() }

@inline(never)
@_optimize(none)
func letGoOf(_ make: () -> AnyObject) { _ = make() }

@inline(never)
@_optimize(none)
func change(_ value: inout Int, _ body: () -> Void) {
    body()
    value += 1
}
