// Uses deleted C++ objects in every way that C++ has: cplusplus [--kept | --reused] CASE.
// The lines above a case have the keys that Tests/Detection/zombies.py documents.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <malloc.h>
#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#define NEVER_INLINED __attribute__((noinline, noclone_if_gnu))
#ifdef __clang__
#define noclone_if_gnu optnone
#else
#define noclone_if_gnu noipa
#endif
#define CASE __attribute__((noinline))

enum class Fate { freed, reused, kept };
static Fate fate = Fate::freed;

struct Plate {
    Plate() = default;
    Plate(const Plate &) = default;
    virtual ~Plate() {}
    virtual int clean() { return 1; }
    int washed = 0;
};

struct Shape {
    virtual ~Shape() {}
    virtual double area() const = 0;
    virtual int corners() const { return 0; }
    int color = 3;
};

struct Circle : Shape {
    explicit Circle(double size) : radius(size) {}
    double area() const override { return 3 * radius * radius; }
    double radius;
};

struct Ring final : Circle {
    explicit Ring(double size) : Circle(size) {}
    double area() const override { return radius; }
    int corners() const override { return 2; }
};

struct Dish : Shape, Plate {
    double area() const override { return 5; }
    int clean() override { return washed + 2; }
    int depth = 9;
};

struct Kettle final : Shape {
    double area() const override { return 7; }
    ~Kettle() override { color = lid->clean(); }
    Plate *lid;
};

struct Root {
    virtual ~Root() {}
    virtual int id() { return number; }
    int number = 4;
};
struct Left : virtual Root {};
struct Right : virtual Root {};
struct Bottom : Left, Right {
    int id() override { return number + 1; }
};

namespace shop {
template <typename Value> struct Box {
    explicit Box(Value content) : content(content) {}
    virtual ~Box() {}
    virtual Value get() { return content; }
    Value content;
};
namespace {
struct Hidden {
    virtual ~Hidden() {}
    virtual int reveal() { return 6; }
};
struct WellHidden : Hidden {
    int reveal() override { return 7; }
};
} // namespace
} // namespace shop

struct Owner {
    Shape *shape;
    std::function<int(int)> action = [](int count) { return count + 1; };
    std::vector<int> numbers{1, 2, 3};
    std::string name = "a name that is longer than what fits in place";
    int count = 5;
};

// MARK: helpers

template <typename Object> NEVER_INLINED static void drop_object(Object *object, void *memory) {
    if (fate == Fate::kept) return;
    size_t size = malloc_usable_size(memory);
    delete object;
    for (int round = 0; fate == Fate::reused && round < 16; round++) {
        void *volatile block = malloc(size);
        memset(block, 0xA7, size);
    }
}
template <typename Object> static void drop(Object *object) { drop_object(object, object); }

// Returns the pointer so that the optimizer does not know its value.
template <typename Object> static Object *opaque(Object *object) {
    __asm__ volatile("" : "+r"(object) : : "memory");
    return object;
}

NEVER_INLINED static Circle *make_circle() { return new Circle(2); }
NEVER_INLINED static Ring *make_ring() { return new Ring(2); }
NEVER_INLINED static Kettle *make_kettle() {
    Kettle *kettle = new Kettle;
    kettle->lid = new Plate;
    return kettle;
}
NEVER_INLINED static Dish *make_dish() { return new Dish; }
NEVER_INLINED static Bottom *make_bottom() { return new Bottom; }
NEVER_INLINED static shop::Box<int> *make_box() { return new shop::Box<int>(8); }
NEVER_INLINED static shop::Hidden *make_hidden() {
    int *volatile nothing = nullptr;
    return nothing ? new shop::WellHidden : new shop::Hidden;
}
NEVER_INLINED static Owner *make_owner() {
    Owner *owner = new Owner;
    owner->shape = new Circle(3);
    return owner;
}

template <typename Value> [[noreturn]] static void done(Value value) {
    printf("%g\n", double(value));
    exit(0);
}

// MARK: cases
//
// The first vtable pointer of a freed object is a trap word, whose use distinguishes a call from a cast. Further vtable
// pointers and members hold the plain fill: reads fault in isolated blocks, and are inferred in the quarantine.

// case: A virtual method is called.
// class: Circle
// access: call
CASE static void virtual_call() {
    Circle *circle = opaque(make_circle());
    drop(circle);
    done(opaque(circle)->area());
}

// case: A virtual method is called through a pointer to the base class.
// class: Ring
// access: call
CASE static void base_call() {
    Shape *shape = opaque<Shape>(make_ring());
    drop(shape);
    done(opaque(shape)->corners());
}

// case: A virtual method of the second base class is called.
// class: Dish
// access: read
CASE static void second_base_call() {
    Dish *dish = make_dish();
    Plate *plate = opaque<Plate>(dish);
    drop(dish);
    done(opaque(plate)->clean());
}

// case: A method is called that is pure virtual in the base class; the destructors reset the vtable to the base's.
// class: Circle
// access: call
CASE static void pure_virtual_call() {
    Shape *shape = opaque<Shape>(make_circle());
    drop(shape);
    done(opaque(shape)->area());
}

// case: A method of a virtual base class is called.
// class: Bottom
// access: read
CASE static void virtual_base_call() {
    Bottom *bottom = make_bottom();
    Root *root = opaque<Root>(bottom);
    drop(bottom);
    done(opaque(root)->id());
}

// case: A pointer is converted to a virtual base class, which reads the vtable.
// class: Bottom
// access: read
CASE static void virtual_base_cast() {
    Left *left = opaque<Left>(make_bottom());
    drop(static_cast<Bottom *>(left));
    done(opaque(left)->number);
}

// case: A virtual method is called through a pointer to member.
// class: Circle
// access: call
CASE static void method_pointer_call() {
    Circle *circle = opaque(make_circle());
    double (Circle::*volatile method)() const = &Circle::area;
    drop(circle);
    done((opaque(circle)->*method)());
}

// case: A method of a class template is called.
// class: shop::Box<int>
// access: call
CASE static void template_call() {
    shop::Box<int> *box = opaque(make_box());
    drop(box);
    done(opaque(box)->get());
}

// case: A method of a class in an anonymous namespace is called.
// class: shop::(anonymous namespace)::Hidden|shop::Hidden
// access: call
CASE static void anonymous_call() {
    shop::Hidden *hidden = opaque(make_hidden());
    drop(hidden);
    done(opaque(hidden)->reveal());
}

// case: dynamic_cast to a derived class.
// class: Circle
// access: cast
CASE static void cast_down() {
    Shape *shape = opaque<Shape>(make_circle());
    drop(shape);
    done(dynamic_cast<Circle *>(opaque(shape)) != nullptr);
}

// case: dynamic_cast to a final class, for which newer compilers compare vtable addresses.
// class: Circle
// access: cast|read
// on clang-O2, aarch64: silent=the vtable pointer is loaded and compared but not dereferenced (as in Silent.swift)
CASE static void cast_to_final() {
    Shape *shape = opaque<Shape>(make_circle());
    drop(shape);
    done(dynamic_cast<Ring *>(opaque(shape)) == nullptr);
}

// case: Placement new over the freed object, which writes the vtable pointer first.
// class: Circle
// access: write
CASE static void build_again() {
    Circle *circle = opaque(make_circle());
    drop(circle);
    done(opaque(new (opaque(circle)) Circle(3))->area());
}

// case: memset overwrites the whole object.
// class: Circle
// access: write
CASE static void overwrite() {
    Circle *circle = opaque(make_circle());
    drop(circle);
    void *(*volatile fill)(void *, int, size_t) = memset;
    fill(opaque(static_cast<void *>(circle)), 0, sizeof *circle);
    done(opaque(circle)->radius);
}

// case: memcpy copies the whole object.
// class: Circle
// access: read
CASE static void copy_bytes() {
    Circle *circle = opaque(make_circle());
    char bytes[sizeof(Circle)];
    drop(circle);
    void *(*volatile copy)(void *, const void *, size_t) = memcpy;
    copy(bytes, opaque(static_cast<void *>(circle)), sizeof *circle);
    done(bytes[0]);
}

// case: dynamic_cast from the second base class to the first.
// class: Dish
// access: read
CASE static void cast_across() {
    Dish *dish = make_dish();
    Plate *plate = opaque<Plate>(dish);
    drop(dish);
    done(dynamic_cast<Shape *>(opaque(plate)) != nullptr);
}

// case: dynamic_cast to void *, the address of the whole object.
// class: Circle
// access: cast
CASE static void cast_to_void() {
    Shape *shape = opaque<Shape>(make_circle());
    drop(shape);
    void *whole = dynamic_cast<void *>(opaque(shape));
    done(opaque(whole) == shape);
}

// case: typeid of the freed object.
// class: Circle
// access: cast
CASE static void type_of() {
    Shape *shape = opaque<Shape>(make_circle());
    drop(shape);
    const Shape &object = *opaque(shape);
    done(typeid(object) == typeid(Ring));
}

// case: The object is deleted twice through its virtual destructor.
// class: Circle
// access: call|release
CASE static void deleted_twice() {
    Shape *shape = opaque<Shape>(make_circle());
    drop(shape);
    if (fate != Fate::kept) delete opaque(shape);
    done(1);
}

// case: The object is deleted twice, the second time through its second base class.
// class: Dish
// access: read
CASE static void deleted_twice_by_second_base() {
    Dish *dish = make_dish();
    Plate *plate = opaque<Plate>(dish);
    drop(dish);
    if (fate != Fate::kept) delete opaque(plate);
    done(1);
}

// case: The destructor of the freed object is called explicitly.
// class: Circle
// access: call|release
CASE static void destroyed_twice() {
    Shape *shape = opaque<Shape>(make_circle());
    drop(shape);
    if (fate != Fate::kept) opaque(shape)->~Shape();
    done(1);
}

// case: An object of a final class is deleted twice: the direct destructor call may write the vtable pointer first.
// class: Kettle
// access: read
// on gcc: access=write (the destructor writes the vtable pointer first)
// on gcc-O2, aarch64: access=read (the member lid is loaded first)
CASE static void final_deleted_twice() {
    Kettle *kettle = opaque(make_kettle());
    drop(kettle);
    if (fate != Fate::kept) delete opaque(kettle);
    done(1);
}

// case: A std::unique_ptr deletes an object that was deleted before.
// class: Circle
// access: call|release
CASE static void owned_twice() {
    Circle *circle = opaque(make_circle());
    std::unique_ptr<Shape> owner(opaque(circle));
    drop(circle);
    if (fate != Fate::kept) owner.reset();
    owner.release();
    done(1);
}

// case: A pointer member is followed. The class has no vtable, so its name is unknown.
// class: -
// access: read
CASE static void member_followed() {
    Owner *owner = opaque(make_owner());
    drop(owner);
    done(opaque(owner)->shape->corners());
}

// case: A std::function member is called. The class has no vtable, so its name is unknown.
// class: -
// access: read
CASE static void function_member_called() {
    Owner *owner = opaque(make_owner());
    drop(owner);
    done(opaque(owner)->action(1));
}

// case: An element of a std::vector member is read. The class has no vtable, so its name is unknown.
// class: -
// access: read
CASE static void vector_member_read() {
    Owner *owner = opaque(make_owner());
    drop(owner);
    done(opaque(owner)->numbers[1]);
}

// case: A character of a std::string member is read. The class has no vtable, so its name is unknown.
// class: -
// access: read
CASE static void string_member_read() {
    Owner *owner = opaque(make_owner());
    drop(owner);
    done(opaque(owner)->name[3]);
}

// case: A number is written.
// class: Circle
// access: write
CASE static void number_written() {
    Circle *circle = opaque(make_circle());
    drop(circle);
    opaque(circle)->radius = 4;
    done(1);
}

// case: A number is read.
// class: Circle
// access: read
CASE static void number_read() {
    Circle *circle = opaque(make_circle());
    drop(circle);
    done(opaque(circle)->radius);
}

// MARK: quarantined objects that are not isolated blocks (by default only the first of a context is isolated)

// case: A virtual method is called.
// class: Circle
// access: call
// options: isolated_per_context=0
// frame: virtual_call
CASE static void virtual_call_quarantined() { virtual_call(); }

// case: dynamic_cast to a derived class.
// class: Circle
// access: cast
// options: isolated_per_context=0
// frame: cast_down
CASE static void cast_down_quarantined() { cast_down(); }

// case: The object is deleted twice through its virtual destructor.
// class: Circle
// access: call|release
// options: isolated_per_context=0
// frame: deleted_twice
CASE static void deleted_twice_quarantined() { deleted_twice(); }

// case: A virtual method of the second base class is called.
// class: Dish
// access: call|read
// confidence: inferred
// options: isolated_per_context=0
// frame: second_base_call
CASE static void second_base_call_quarantined() { second_base_call(); }

// case: A pointer member is followed.
// class: -
// access: read|call
// confidence: inferred
// options: isolated_per_context=0
// frame: member_followed
CASE static void member_followed_quarantined() { member_followed(); }

// case: A number is written.
// finds: write-after-free
// class: Circle
// access: write
// options: isolated_per_context=0
CASE static void number_written_quarantined() { number_written(); }

// case: A number is read.
// silent: any bytes are a valid number
// class: Circle
// options: isolated_per_context=0
CASE static void number_read_quarantined() { number_read(); }

// MARK: clean cases

// case: Objects are created, cast, and deleted through their base classes.
// clean:
CASE static void objects_live() {
    double sum = 0;
    for (int round = 0; round < 5000; round++) {
        std::unique_ptr<Shape> shape(round % 2 ? static_cast<Shape *>(make_ring()) : make_dish());
        sum += shape->area() + (dynamic_cast<Plate *>(shape.get()) ? 1 : 0) + shape->corners();
    }
    done(sum);
}

// case: A std::weak_ptr outlives its object.
// clean:
CASE static void weak_pointer() {
    std::weak_ptr<Circle> weak;
    {
        auto strong = std::make_shared<Circle>(2);
        weak = strong;
    }
    done(weak.expired());
}

static const struct {
    const char *name;
    void (*run)();
} cases[] = {
#include "cases.inc"
};

int main(int count, char **arguments) {
    if (count > 2) fate = strcmp(arguments[1], "--kept") ? Fate::reused : Fate::kept;
    for (auto &each : cases) {
        if (count > 1 && !strcmp(each.name, arguments[count - 1])) each.run();
    }
    return 64;
}
