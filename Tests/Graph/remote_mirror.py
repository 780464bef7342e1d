"""Asks libswiftRemoteMirror of the Swift toolchain what the fields of objects of another process are.

The library is the one that debuggers use. It reads a process through callbacks, and needs no debug information. Declarations:
SwiftRemoteMirror.h, SwiftRemoteMirrorTypes.h and MemoryReaderInterface.h of the Swift sources, which a toolchain lacks."""

import ctypes
import os
import shutil
import struct
from pathlib import Path

# Names of the values of swift_layout_kind_t, in the order of that type.
KINDS = ["unknown", "builtin", "raw pointer", "tuple", "struct", "enum without payload", "enum of one payload", "enum of several payloads",
         "function", "opaque existential", "class existential", "error existential", "existential metatype", "strong", "unowned", "weak",
         "unmanaged", "class instance", "closure context"]
REFERENCES = ("strong", "unowned", "weak", "unmanaged")
WORD = 8
DEEPEST = 20
# If several payloads of an enum share a word, the kind with the highest rank counts: an owning reference before all others.
RANKS = {"number": 0, "unowned": 1, "unmanaged": 1, "weak": 1, "pointer": 2, "unknown": 3, "strong": 4}


class TypeInfo(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("size", ctypes.c_uint), ("alignment", ctypes.c_uint), ("stride", ctypes.c_uint), ("fields", ctypes.c_uint)]


class ChildInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("offset", ctypes.c_uint), ("kind", ctypes.c_int), ("type", ctypes.c_uint64)]


QUERY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
READ = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p)
LENGTH = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)
SYMBOL = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)

# Answers to queries about the data layout (DataLayoutQueryType), by number of the query: sizes of pointers and of size_t, mask of signed
# pointers, reserved low bits, least valid pointer, interoperation with Objective-C.
ANSWERS = {0: b"\x08", 1: b"\x08", 2: b"\xff" * 8, 3: b"\0", 4: struct.pack("<Q", 0x1000), 5: b"\0"}


def find_library():
    """Returns the path of the library; None if the toolchain lacks it."""
    swift = shutil.which("swiftc")
    path = Path(os.path.realpath(swift)).parent.parent / "lib/swift/linux/libswiftRemoteMirror.so" if swift else None
    return path if path and path.exists() else None


class RemoteMirror:
    """Reads the types of objects of a process, which must not run meanwhile."""

    def __init__(self, pid):
        self.memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        self.library = library = ctypes.CDLL(str(find_library()))
        self.libc = ctypes.CDLL(None)
        self.libc.malloc.restype, self.libc.malloc.argtypes, self.libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
        address, pointer, number = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint
        for name, result, arguments in (
                ("createReflectionContextWithDataLayout", pointer, [pointer, QUERY, FREE, READ, LENGTH, SYMBOL]),
                ("destroyReflectionContext", None, [pointer]), ("addImage", ctypes.c_int, [pointer, address]),
                ("infoForInstance", TypeInfo, [pointer, address]), ("childOfInstance", ChildInfo, [pointer, address, number]),
                ("infoForMetadata", TypeInfo, [pointer, address]), ("childOfMetadata", ChildInfo, [pointer, address, number]),
                ("infoForTypeRef", TypeInfo, [pointer, address]), ("childOfTypeRef", ChildInfo, [pointer, address, number]),
                ("projectExistential", ctypes.c_int, [pointer, address, address, ctypes.POINTER(address), ctypes.POINTER(address)]),
                ("copyDemangledNameForTypeRef", pointer, [pointer, address, ctypes.c_bool])):
            function = getattr(library, "swift_reflection_" + name)
            function.restype, function.argtypes = result, arguments
        self.headers = []
        self.callbacks = [QUERY(self.answer), FREE(lambda _, bytes_, __: self.libc.free(bytes_)), READ(self.give), LENGTH(self.length),
                          SYMBOL(lambda *_: 0)]
        self.context = library.swift_reflection_createReflectionContextWithDataLayout(None, *self.callbacks)
        images = {}
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split(None, 5)
            if len(words) == 6 and words[5].startswith("/") and words[2] == "00000000":
                images.setdefault(words[5], int(words[0].split("-")[0], 16))
        for path, start in images.items():
            self.add(path, start)

    def close(self):
        self.library.swift_reflection_destroyReflectionContext(self.context)
        os.close(self.memory)

    # Callbacks.

    def answer(self, _, query, __, result):
        if query not in ANSWERS:
            return 0
        ctypes.memmove(result, ANSWERS[query], len(ANSWERS[query]))
        return 1

    def read(self, address, count):
        for start, data in self.headers:
            if start <= address and address + count <= start + len(data):
                return data[address - start:address - start + count]
        try:
            return os.pread(self.memory, count, address)
        except (OSError, OverflowError):
            return b""

    def give(self, _, address, count, __):
        data = self.read(address, count)
        if len(data) < count:
            return None
        copy = self.libc.malloc(max(count, 1))
        ctypes.memmove(copy, data, count)
        return copy

    def length(self, _, address):
        length = 0
        while part := self.read(address + length, 4096 - (address + length) % 4096):
            end = part.find(b"\0")
            if end >= 0:
                return length + end
            length += len(part)
        return 0

    def add(self, path, start):
        """Adds an image. The library reads section headers, which are not loaded, at their file offset: `headers` supplies them."""
        try:
            data = Path(path).read_bytes()
        except OSError:
            return
        if data[:5] != b"\x7fELF\x02":
            return
        offset, = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        if not offset:
            return
        text, text_size = struct.unpack_from("<QQ", data, offset + size * names + 24)
        self.headers = [(start + offset, data[offset:offset + size * count]), (start + text, data[text:text + text_size])]
        self.library.swift_reflection_addImage(self.context, start)
        self.headers = []

    # Answers.

    def word(self, address):
        return int.from_bytes(self.read(address, WORD), "little")

    def name(self, of_type):
        text = self.library.swift_reflection_copyDemangledNameForTypeRef(self.context, of_type, False)
        if not text:
            return ""
        name = ctypes.string_at(text).decode()
        self.libc.free(text)
        return name

    def words(self, instance):
        """Returns the end of an object's fields, and the kinds of its words by offset, except numbers. None if the object is unknown."""
        info = self.library.swift_reflection_infoForInstance(self.context, instance)
        if KINDS[info.kind] not in ("class instance", "closure context"):
            return None
        found, self.instance = {}, instance
        self.add_children(found, info, self.library.swift_reflection_childOfInstance, instance)
        above = self.word(self.word(instance) + WORD) if KINDS[info.kind] == "class instance" else 0
        while above:
            # The library's children of an instance are only properties of the instance's own class: add those of the superclasses.
            more = self.library.swift_reflection_infoForMetadata(self.context, above)
            if KINDS[more.kind] != "class instance":
                return None
            self.add_children(found, more, self.library.swift_reflection_childOfMetadata, above)
            above = self.word(above + WORD)
        return info.size, found

    def add_children(self, found, info, child_of, parent):
        for index in range(info.fields):
            child = child_of(self.context, parent, index)
            self.add_value(found, KINDS[child.kind], child.type, child.offset, 0)

    def add_value(self, found, kind, of_type, offset, depth):
        def put(kind, at=0):
            place = (offset + at) // WORD * WORD
            if RANKS[kind] >= RANKS[found.get(place, "number")]:
                found[place] = kind

        if kind in REFERENCES:
            put(kind)
        elif kind == "raw pointer":
            put("pointer")
        elif kind == "error existential" or kind == "builtin" and self.name(of_type) == "Builtin.BridgeObject":
            put("strong")  # builtin: the library classifies references to the storage of strings and sets as plain bits
        elif kind == "function":
            put("strong", WORD)
        elif kind == "opaque existential":
            self.add_erased(found, of_type, offset, depth)
        elif kind not in ("builtin", "enum without payload", "existential metatype"):
            info = self.library.swift_reflection_infoForTypeRef(self.context, of_type)
            if KINDS[info.kind] != kind or depth == DEEPEST:
                put("unknown")
                return
            for index in range(info.fields):
                child = self.library.swift_reflection_childOfTypeRef(self.context, of_type, index)
                below = KINDS[child.kind]
                # Skip cases without a payload, and witness tables.
                if kind == "class existential" and child.name != b"object" or "enum" in kind and not child.type:
                    continue
                self.add_value(found, below, child.type, offset + child.offset, depth + 1)

    def add_erased(self, found, of_type, offset, depth):
        """Adds the value in an existential, whose type is known from the object's contents."""
        place = self.instance + offset
        if self.word(place + 3 * WORD) == 0:
            return
        inner, start = ctypes.c_uint64(), ctypes.c_uint64()
        known = self.library.swift_reflection_projectExistential(self.context, place, of_type, ctypes.byref(inner), ctypes.byref(start))
        kind = KINDS[self.library.swift_reflection_infoForTypeRef(self.context, inner.value).kind] if known and inner.value else "unknown"
        if kind == "unknown" or depth == DEEPEST:
            found.update({offset + at: "unknown" for at in range(0, 3 * WORD, WORD)})
        elif kind in REFERENCES or not place <= start.value < place + 3 * WORD:
            found[offset] = "strong"
        else:
            self.add_value(found, kind, inner.value, offset, depth + 1)
