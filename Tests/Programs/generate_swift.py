"""Deterministic Swift sources: types, protocols, generics, closures, documentation comments, unusual formatting."""

from generate import WORDS, Numbers

HEAD = """//  File {n} of a generated corpus.
import Foundation;import Dispatch

/// What the types of file {n} share.
public protocol {T}Part : AnyObject,Sendable {{
  associatedtype Value:Hashable ; var title:String {{get}}
      func measure(with scale : Double,in unit:String)throws->Value
}}
"""

PIECES = (
    # A class with documentation, properties, an initializer and methods.
    """/// A {w} of the {x}.
///
/// - Parameters:
///   - value: how much of it
/// - Returns: nothing that matters
public final class {T}{n}{K} : CustomStringConvertible {{
    private  var {w}Count:Int = {a} ;  fileprivate let {x}Names:[String] = ["{w}","{x}",  "{w}-{x}"]
  public weak var owner:{T}{n}{K}?
        init( value:Int , {x} other:Double = {b}.5 ){{ self.{w}Count=value+Int(other) }}
    deinit {{ owner=nil }}
    public var description:String{{ get {{ return "\\({w}Count) of \\({x}Names.joined(separator:", "))" }} }}
    @discardableResult
    func {x}(_ values:[Int],by step:Int={c},then action:@escaping (Int)throws->Void)rethrows->Int {{
        var total=0
        for (index,value) in values.enumerated() where value%{c} != 0 {{ if index>{a} {{ continue }} ; total+=value*step }}
        guard total>{b} else {{ return {w}Count }}
        switch total {{ case 0 : return 1 ; case 1...{b}: {w}Count+=1
        case let other where other>{a}*{c}: {w}Count -= other
            default: break }}
        return values.map({{ $0+{a} }}).filter({{ (value:Int)->Bool in return value%2==0 }}).reduce(total,+)
    }}
}}
""",
    # An enumeration with payloads and a computed property.
    """indirect enum {T}{n}{K}:Codable,Hashable{{
case {w} , {x}(Int,label:String)
    case nested({T}{n}{K},count : Int)
  static let all : [Self] = [.{w},.{x}({a},label:"{w}"),.nested(.{w},count:{b})]
    var depth:Int{{ switch self {{
        case .{w}:return 0
        case .{x}(let number,label:_):return number
        case .nested(let inner,count:let count):return inner.depth+count }} }}
}}
extension {T}{n}{K} : Comparable {{ static func <(left:Self,right:Self)->Bool{{ left.depth<right.depth }} }}
""",
    # A generic struct, long signatures, closures, string interpolation.
    """struct {T}{n}{K}<Element:Hashable,Other>:Sequence where Element:Comparable,Other:Collection,Other.Element==Element {{
    var elements:[Element:Other] = [:],order:[Element]=[]
  subscript(key:Element)->Other? {{ get{{elements[key]}} set {{ elements[key]=newValue;if newValue==nil {{ order.removeAll{{ $0==key }} }} else {{ order.append(key) }} }} }}
    func makeIterator()->AnyIterator<(Element,Other?)>{{ var iterator=order.sorted(by:{{ $0<$1 }}).makeIterator() ; return AnyIterator{{ iterator.next().map{{ ($0,elements[$0]) }} }} }}
    mutating func {w}({x} first:Element,second:Element,third:Other,{w} fourth:Int={a},fifth:@autoclosure ()->String="\\({a}) {x} \\({b})")async throws->[(Element,Int)]{{
        try await withThrowingTaskGroup(of:Int.self){{ group in for number in 0..<fourth{{ group.addTask{{ number*{c} }} }};var sum=0;for try await value in group{{ sum+=value }};return [(first,sum),(second,third.count)] }}
    }}
}}
""",
    # Free functions with conditions, literals and comments.
    """/* {w} and {x}, in one function */
func {w}{n}{K}( _ text:String,  limit:Int = {a}_000)->[String:[Int]]{{
    let table:[String:Int]=["{w}":{a},"{x}":{b},
      "{w}{x}":{c} , ] // a trailing comma
    var result=[String:[Int]]()
    if let first=text.first,first.isLetter,limit>0 {{ result[String(first)]=[table["{w}",default:{c}]] }}else if text.isEmpty{{ return [:] }}else{{ result["\\(text.count)",default:[]].append(limit) }}
    #if DEBUG
    print("{w}",result)
    #endif
    defer{{ _=table }}
    let long = text.split(separator:" ").compactMap{{ Int($0) }}.map{{ $0*{a} }}.filter{{ $0>{b} }}.sorted(by:>).prefix(limit).reduce(into:[Int](),{{ $0.append($1) }})
    result["long"]=long;return result
}}
""",
)


def swift_source(number, pieces):
    """Returns a source file of about 16 lines per piece."""
    numbers = Numbers(100 + number)
    text = [HEAD.format(n=number, T=numbers.pick(WORDS).title())]
    for piece in range(pieces):
        first, second = numbers.pick(WORDS), numbers.pick(WORDS)
        body = PIECES[numbers.next(len(PIECES))].format(
            n=number, K=f"K{piece}", T=first.title(), w=first, x=second + "s",
            a=numbers.next(90) + 2, b=numbers.next(900) + 10, c=numbers.next(8) + 2)
        text.append("\n" * numbers.next(4) + body)
    return "".join(text)
