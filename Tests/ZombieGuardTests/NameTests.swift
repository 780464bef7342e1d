// Real mangled names, and the readable names in reports.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct NameTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var symbol: String
        var name: SymbolName
        var testDescription: String { name.readable }
    }

    private static func row(
        _ symbol: String, _ readable: String, _ owner: String?, _ member: String?, _ role: SymbolName.Role
    ) -> Row {
        let isCxx = symbol.hasPrefix("_Z")
        var name = SymbolName(language: isCxx ? .cxx : .swift, readable: readable, role: role)
        name.owner = owner
        name.member = member
        return Row(symbol: symbol, name: name)
    }

    // Names as mangled by Swift 6.3.
    static let swift: [Row] = [
        row("$s4Shop4CartC3addyySiF", "Cart.add(_:)", "Cart", "add(_:)", .function),
        row("$s4Shop4CartC3add4item2toySi_ACtF", "Cart.add(item:to:)", "Cart", "add(item:to:)", .function),
        row("$s4Shop4CartC5resetyyF", "Cart.reset()", "Cart", "reset()", .function),
        row("$s4Shop4CartC5totalSivg", "Cart.total.getter", "Cart", "total", .getter),
        row("$s4Shop4CartC5totalSivs", "Cart.total.setter", "Cart", "total", .setter),
        row("$s4Shop4CartC5totalSivM", "Cart.total.modify", "Cart", "total", .modify),
        row("$s4Shop4CartC5totalSivW", "Cart.total.didset", "Cart", "total", .helper),
        row("$s4Shop4CartC8modifyMeSivr", "Cart.modifyMe.read", "Cart", "modifyMe", .getter),
        row("$s4Shop4CartC9asyncPropSivg", "Cart.asyncProp.getter", "Cart", "asyncProp", .getter),
        row("$s4Shop4CartC9asyncPropSivgTu", "Cart.asyncProp.getter", "Cart", "asyncProp", .getter),
        row("$s4Shop4CartC5classSivg", "Cart.class.getter", "Cart", "class", .getter),
        row("$s4Shop4CartC0010unicod_gvaSivg", "Cart.unicodé.getter", "Cart", "unicodé", .getter),
        row("$s4Shop4CartC7lazyOneSivg", "Cart.lazyOne.getter", "Cart", "lazyOne", .getter),
        row("$s4Shop4CartCyS2icig", "Cart.subscript(_:).getter", "Cart", "subscript(_:)", .getter),
        row(
            "$s4Shop4CartC4name2atSiSS_Sitcig", "Cart.subscript(name:at:).getter", "Cart", "subscript(name:at:)",
            .getter),
        row("$s4Shop3BoxC3keyxqd___tcluig", "Box.subscript(key:).getter", "Box", "subscript(key:)", .getter),
        row("$s4Shop4CartC4nameACSS_tcfC", "Cart.__allocating_init(name:)", "Cart", "init(name:)", .function),
        row("$s4Shop4CartC_4sizeACSi_SitKcfc", "Cart.init(_:size:)", "Cart", "init(_:size:)", .function),
        row("$s4Shop4CartCACycfC", "Cart.__allocating_init()", "Cart", "init()", .function),
        row("$s4Shop4CartC5maybeACSgSb_tcfC", "Cart.__allocating_init(maybe:)", "Cart", "init(maybe:)", .function),
        row("$s4Shop4CartCfD", "Cart.__deallocating_deinit", "Cart", "deinit", .function),
        row("$s4Shop4CartCfd", "Cart.deinit", "Cart", "deinit", .function),
        row("$s4Shop4CartC3gen_4withxx_q_tSQR_r0_lF", "Cart.gen(_:with:)", "Cart", "gen(_:with:)", .function),
        row("$s4Shop3BoxC3mapyACyqd__Gqd__xXElF", "Box.map(_:)", "Box", "map(_:)", .function),
        row("$s4Shop3BoxC6WithinC2goyyx_qd__tF", "Box.Within.go(_:_:)", "Box.Within", "go(_:_:)", .function),
        row("$s4Shop5packsySixxQpRvzlF", "packs(_:)", nil, nil, .function),
        row(
            "$s4Shop4CartC6hidden33_F49A18B7373EFB6DF8098986FB33B6CCLLyS2iF", "Cart.hidden(_:)", "Cart", "hidden(_:)",
            .function),
        row(
            "$s4Shop4CartC7hidden233_F49A18B7373EFB6DF8098986FB33B6CCLL1aS2i_tF", "Cart.hidden2(a:)", "Cart",
            "hidden2(a:)", .function),
        row(
            "$s4Shop6Secret33_F49A18B7373EFB6DF8098986FB33B6CCLLC7whisperyS2SF", "Secret.whisper(_:)", "Secret",
            "whisper(_:)", .function),
        row(
            "$s4More6ParentV11PrivStorage33_AD706C6F1E609D98CD2BF2372E499855LLC6Inner2C1yyyF",
            "Parent.PrivStorage.Inner2.y()", "Parent.PrivStorage.Inner2", "y()", .function),
        row("$s4Shop4CartC4makeyACSiFZ", "static Cart.make(_:)", "Cart", "make(_:)", .function),
        row("$s4Shop4CartC6sharedACvgZ", "static Cart.shared.getter", "Cart", "shared", .getter),
        row("$s4Shop4CartC1poiyA2C_ACtFZ", "static Cart.+(_:_:)", "Cart", "+(_:_:)", .function),
        row("$s4Shop4CartC1sopyA2CFZ", "static Cart.-(_:)", "Cart", "-(_:)", .function),
        row("$s4More4TreeC3llloiyyACyxq_G_xtFZ", "static Tree.<<<(_:_:)", "Tree", "<<<(_:_:)", .function),
        row("$sSi4MoreE3mmmoiyS2i_SitFZ", "static Int.***(_:_:)", "Int", "***(_:_:)", .function),
        row("$s4Shop3lpgoiySiAA4CartC_ADtF", "<+>(_:_:)", nil, nil, .function),
        row("$s4Shop4CartC5fetchySiSSYaKF", "Cart.fetch(_:)", "Cart", "fetch(_:)", .function),
        row("$s4Shop4CartC5fetchySiSSYaKFTu", "Cart.fetch(_:)", "Cart", "fetch(_:)", .function),
        row("$s4Shop4CartC5fetchySiSSYaKFTQ0_", "Cart.fetch(_:)", "Cart", "fetch(_:)", .function),
        row("$s4Shop4CartC11throwsTypedyyAC1EOYKF", "Cart.throwsTyped()", "Cart", "throwsTyped()", .function),
        row(
            "$s4Shop4CartC12closureParam_4thenS3iXE_yyYaKctF", "Cart.closureParam(_:then:)", "Cart",
            "closureParam(_:then:)", .function),
        row("$s4Shop4CartC10tupleParamyS2i1a_SS1bt_tF", "Cart.tupleParam(_:)", "Cart", "tupleParam(_:)", .function),
        row("$s4Shop4CartC8variadicyS2id_tF", "Cart.variadic(_:)", "Cart", "variadic(_:)", .function),
        row(
            "$s4Shop4CartC8optional_4dictSiSgAF_SDySSSaySiGGtF", "Cart.optional(_:dict:)", "Cart", "optional(_:dict:)",
            .function),
        row("$s4Shop4CartC10inoutParamyySizF", "Cart.inoutParam(_:)", "Cart", "inoutParam(_:)", .function),
        row(
            "$s4Shop4CartC11existentialyQrAA5Proto_s8SendablepF", "Cart.existential(_:)", "Cart", "existential(_:)",
            .function),
        row("$s4Shop4CartC8closuresSiycyF", "Cart.closures()", "Cart", "closures()", .function),
        row(
            "$s4More7HasWrapC0021weirdname_kjaAGGIBdkayyF", "HasWrap.`weird name`()", "HasWrap", "`weird name`()",
            .function),
        row(
            "$s4More7HasWrapC4take1f_1hyySi_SStXE_SiyXKySiYaYbKctF", "HasWrap.take(f:_:h:)", "HasWrap", "take(f:_:h:)",
            .function),
        row(
            "$s4More7HasWrapC3arr__1zySaySDySSSiSgGG_Si_SityttF", "HasWrap.arr(_:_:z:)", "HasWrap", "arr(_:_:z:)",
            .function),
        row("$s4More7HasWrapC4unityyyt_tF", "HasWrap.unit(_:)", "HasWrap", "unit(_:)", .function),
        row("$s4More7HasWrapC2opS2icSicyF", "HasWrap.op()", "HasWrap", "op()", .function),
        row("$s4More7HasWrapC2$wSivg", "HasWrap.$w.getter", "HasWrap", "$w", .getter),
        row("$s4More7HasWrapC2opS2icSicyFS2icSicfU_", "closure #1 in HasWrap.op()", "HasWrap", nil, .helper),
        row(
            "$s4More7HasWrapC2opS2icSicyFS2icSicfU_S2icfU_", "closure #1 in closure #1 in HasWrap.op()", "HasWrap", nil,
            .helper),
        row(
            "$s4More7HasWrapC4take1f_1hyySi_SStXE_SiyXKySiYaYbKctFfA1_ySiYaYbcfU_",
            "closure #1 in default argument 2 of HasWrap.take(f:_:h:)", "HasWrap", nil, .helper),
        row("$s4More8asyncLetSiyYaFSiyYaYbcfu0_", "implicit closure #2 in asyncLet()", nil, nil, .helper),
        row(
            "$s4More13globalClosureyS2icvpfiS2icfU_",
            "closure #1 in variable initialization expression of globalClosure", nil, nil, .helper),
        row("$s3TopySiXEfU_", "closure #1 at top level", nil, nil, .helper),
        row("$s4Shop4CartC5localSiyF5innerL_yS2iF", "inner(_:) in Cart.local()", nil, nil, .function),
        row(
            "$s4More5outeryS2iF6nestedL_yS2iF10evenDeeperL_1qS2i_tF", "evenDeeper(q:) in nested(_:) in outer(_:)", nil,
            nil, .function),
        row("$s4More5outeryS2iF8labelledL_1a_S2i_SitF", "labelled(a:_:) in outer(_:)", nil, nil, .function),
        row("$s4More5outeryS2iF5generL_yxxlF", "gener(_:) in outer(_:)", nil, nil, .function),
        row("$s4More5outeryS2iF6$deferL_yyF", "defer in outer(_:)", nil, nil, .function),
        row("$s4More5outeryS2iF8computedL_Sivg", "getter of computed in outer(_:)", nil, nil, .helper),
        row("$s4More5outeryS2iF5LocalL_C2go2byS2i_tF", "Local.go(by:) in outer(_:)", "Local", "go(by:)", .function),
        row("$s4More5outeryS2iF5LocalL_C1kADSi_tcfc", "Local.init(k:) in outer(_:)", "Local", "init(k:)", .function),
        row(
            "$s4More5outeryS2iF5LocalL_C4DeepC3faryyF", "Local.Deep.far() in outer(_:)", "Local.Deep", "far()",
            .function),
        row(
            "$s4More5outeryS2iF5LocalL_C4DeepCAFycfC", "Local.Deep.__allocating_init() in outer(_:)", "Local.Deep",
            "init()", .function),
        row(
            "$s3Top9withLocalyyF1LL_C1aADSgSi_tcfC", "L.__allocating_init(a:) in withLocal()", "L", "init(a:)",
            .function),
        row(
            "$s4More5outeryS2iFS2icfU_4InClL_CfD", "InCl.__deallocating_deinit in closure #1 in outer(_:)", "InCl",
            "deinit", .function),
        row("$s4Shop5ProtoPAAE3extyS2iF", "Proto.ext(_:)", "Proto", "ext(_:)", .function),
        row("$sSa4ShopAA4CartCRszlE6totals2byS2i_tF", "Array.totals(by:)", "Array", "totals(by:)", .function),
        row("$sSS4ShopE5shoutSSyF", "String.shout()", "String", "shout()", .function),
        row("$s4More4TreeCAASiRszrlE3sumSiyF", "Tree.sum()", "Tree", "sum()", .function),
        row("$s4More4TreeCAASiRszrlE11NestedInExtC1qyyF", "Tree.NestedInExt.q()", "Tree.NestedInExt", "q()", .function),
        row(
            "$s4More4TreeC4NodeC6insert_5valueyx_q_tSQR_rlF", "Tree.Node.insert(_:value:)", "Tree.Node",
            "insert(_:value:)", .function),
        row("$s4Shop4CartC6NestedC6DeeperC2goyyF", "Cart.Nested.Deeper.go()", "Cart.Nested.Deeper", "go()", .function),
        row(
            "$s4Shop5OuterC5SpaceO6InEnumC1f1xySi_tF", "Outer.Space.InEnum.f(x:)", "Outer.Space.InEnum", "f(x:)",
            .function),
        row(
            "$s4Shop4CartCAA5ProtoA2aDP5speak4loudSiSb_tFTW",
            "protocol witness for Proto.speak(loud:) in conformance Cart", "Cart", "speak(loud:)", .function),
        row(
            "$s4More6CircleCAA5ShapeA2aDP4nameSSvgTW", "protocol witness for Shape.name.getter in conformance Circle",
            "Circle", "name", .getter),
        row(
            "$s4More6CircleCAA5ShapeA2aDP4makexyFZTW", "protocol witness for static Shape.make() in conformance Circle",
            "Circle", "make()", .function),
        row(
            "$s4More4TreeCyxq_GStAASt4next7ElementQzSgyFTW",
            "protocol witness for Swift.IteratorProtocol.next() in conformance Tree", "Tree", "next()", .function),
        row(
            "$s10Foundation17NSKeyedUnarchiverC21decodingFailurePolicyAA7NSCoderC08DecodingeF0OvsAfdHvsTV",
            "Foundation.NSKeyedUnarchiver.decodingFailurePolicy.setter", "NSKeyedUnarchiver", "decodingFailurePolicy",
            .setter),
        row(
            "$s4Shop4CartC8closuresSiycyFSiycfU0_TA", "partial apply for closure #2 in Cart.closures()", "Cart", nil,
            .helper),
        row("$sIetH_yts5Error_pIegHrzo_TR", "reabstraction thunk", nil, nil, .helper),
        row("$s4More1MV4mainyyYaKFZTf4d_n", "static M.main()", "M", "main()", .function),
        row(
            "$s4More4TreeCAASiRszrlE11withClosureSaySiGyFSi_Tg5Tf4d_n", "Tree.withClosure()", "Tree", "withClosure()",
            .function),
        row(
            "$ss15ContiguousArrayV16_createNewBuffer14bufferIsUnique15minimumCapacity13growForAppendySb_SiSbtFSi_Tg5",
            "Swift.ContiguousArray._createNewBuffer(bufferIsUnique:minimumCapacity:growForAppend:)", "ContiguousArray",
            "_createNewBuffer(bufferIsUnique:minimumCapacity:growForAppend:)", .function),
        row(
            "$sSlsE3mapySayqd__Gqd__7ElementQzqd_0_YKXEqd_0_YKs5ErrorRd_0_r0_lF", "Swift.Collection.map(_:)",
            "Collection", "map(_:)", .function),
        row("$s4Shop3BoxC5valuexvgTm", "merged Box.value.getter", "Box", "value", .helper),
        row("$s4Shop4CartC4makeyACSiFZfA_", "default argument 0 of static Cart.make(_:)", "Cart", nil, .helper),
        row("$s4Shop4CartC5itemsSaySiGvpfi", "variable initialization expression of Cart.items", "Cart", nil, .helper),
        row("$s4Shop4CartC6shared_WZ", "one-time initialization function for shared", nil, nil, .helper),
        row("$s4Shop4CartCSgWOh", "outlined destroy of Optional<Cart>", nil, nil, .helper),
        row("$s4Shop4MainV5$mainyyYaKFZ", "static Main.$main()", "Main", "$main()", .function),
        row("$s4Shop8checkoutyyYaF", "checkout()", nil, nil, .function),
        row("$s4Shop8checkoutyyYaFTY0_", "checkout()", nil, nil, .function),
        row("$s4Shop10globalFunc_5labelS2i_SitF", "globalFunc(_:label:)", nil, nil, .function),
        row("$s4Shop4BaseC4propSivM", "Base.prop.modify", "Base", "prop", .modify),
        row("$s4More7HasWrapC1wSivpfP", "property wrapper backing initializer of HasWrap.w", "HasWrap", nil, .helper),
    ]

    // Names as mangled by g++ 12.
    static let cxx: [Row] = [
        row("_Z5twiceIiET_S0_", "twice<int>(int)", nil, nil, .function),
        row(
            "_ZN3geo12_GLOBAL__N_16HiddenC1Ev", "geo::(anonymous namespace)::Hidden::Hidden()",
            "geo::(anonymous namespace)::Hidden", "Hidden()", .function),
        row(
            "_ZN3geo12_GLOBAL__N_16HiddenC2Ev", "geo::(anonymous namespace)::Hidden::Hidden()",
            "geo::(anonymous namespace)::Hidden", "Hidden()", .function),
        row(
            "_ZN3geo12_GLOBAL__N_16HiddenD0Ev", "geo::(anonymous namespace)::Hidden::~Hidden()",
            "geo::(anonymous namespace)::Hidden", "~Hidden()", .function),
        row(
            "_ZN3geo12_GLOBAL__N_16HiddenD1Ev", "geo::(anonymous namespace)::Hidden::~Hidden()",
            "geo::(anonymous namespace)::Hidden", "~Hidden()", .function),
        row(
            "_ZN3geo12_GLOBAL__N_16HiddenD2Ev", "geo::(anonymous namespace)::Hidden::~Hidden()",
            "geo::(anonymous namespace)::Hidden", "~Hidden()", .function),
        row("_ZN3geo2mkEv", "geo::mk()", "geo", "mk()", .function),
        row(
            "_ZN3geo3BoxISt3mapIiNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt4lessIiESaISt4pairIKiS7_EEEE3getEv",
            "geo::Box<std::map<int, std::string, std::less<int>, std::allocator<std::pair<int const, std::string > > > >::get()",
            "geo::Box<std::map<int, std::string, std::less<int>, std::allocator<std::pair<int const, std::string > > > >",
            "get()", .function),
        row(
            "_ZN3geo3BoxISt3mapIiNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt4lessIiESaISt4pairIKiS7_EEEEC1Ev",
            "geo::Box<std::map<int, std::string, std::less<int>, std::allocator<std::pair<int const, std::string > > > >::Box()",
            "geo::Box<std::map<int, std::string, std::less<int>, std::allocator<std::pair<int const, std::string > > > >",
            "Box()", .function),
        row(
            "_ZN3geo3BoxISt3mapIiNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt4lessIiESaISt4pairIKiS7_EEEED0Ev",
            "geo::Box<std::map<int, std::string, std::less<int>, std::allocator<std::pair<int const, std::string > > > >::~Box()",
            "geo::Box<std::map<int, std::string, std::less<int>, std::allocator<std::pair<int const, std::string > > > >",
            "~Box()", .function),
        row(
            "_ZN3geo3BoxISt3mapIiNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt4lessIiESaISt4pairIKiS7_EEEED1Ev",
            "geo::Box<std::map<int, std::string, std::less<int>, std::allocator<std::pair<int const, std::string > > > >::~Box()",
            "geo::Box<std::map<int, std::string, std::less<int>, std::allocator<std::pair<int const, std::string > > > >",
            "~Box()", .function),
        row(
            "_ZN3geo5Shape4nameERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt6vectorIiSaIiEE",
            "geo::Shape::name(std::string const&, std::vector<int, std::allocator<int> >)", "geo::Shape",
            "name(std::string const&, std::vector<int, std::allocator<int> >)", .function),
        row("_ZN3geo5ShapeC1Ev", "geo::Shape::Shape()", "geo::Shape", "Shape()", .function),
        row("_ZN3geo5ShapeC2Ev", "geo::Shape::Shape()", "geo::Shape", "Shape()", .function),
        row("_ZN3geo5ShapeD0Ev", "geo::Shape::~Shape()", "geo::Shape", "~Shape()", .function),
        row("_ZN3geo5ShapeD1Ev", "geo::Shape::~Shape()", "geo::Shape", "~Shape()", .function),
        row("_ZN3geo5ShapeD2Ev", "geo::Shape::~Shape()", "geo::Shape", "~Shape()", .function),
        row(
            "_ZN3geo5ShapepLERKS0_", "geo::Shape::operator+=(geo::Shape const&)", "geo::Shape",
            "operator+=(geo::Shape const&)", .function),
        row(
            "_ZN3geo6Circle4nameERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt6vectorIiSaIiEE",
            "geo::Circle::name(std::string const&, std::vector<int, std::allocator<int> >)", "geo::Circle",
            "name(std::string const&, std::vector<int, std::allocator<int> >)", .function),
        row("_ZN3geo6Circle5labelB5cxx11Ev", "geo::Circle::label()", "geo::Circle", "label()", .function),
        row("_ZN3geo6CircleC1Ev", "geo::Circle::Circle()", "geo::Circle", "Circle()", .function),
        row("_ZN3geo6CircleC2Ev", "geo::Circle::Circle()", "geo::Circle", "Circle()", .function),
        row("_ZN3geo6CircleD0Ev", "geo::Circle::~Circle()", "geo::Circle", "~Circle()", .function),
        row("_ZN3geo6CircleD1Ev", "geo::Circle::~Circle()", "geo::Circle", "~Circle()", .function),
        row("_ZN3geo6CircleD2Ev", "geo::Circle::~Circle()", "geo::Circle", "~Circle()", .function),
        row(
            "_ZNK3geo12_GLOBAL__N_16Hidden4areaEi", "geo::(anonymous namespace)::Hidden::area(int) const",
            "geo::(anonymous namespace)::Hidden", "area(int) const", .function),
        row(
            "_ZNK3geo5ShapecvbEv", "geo::Shape::operator bool() const", "geo::Shape", "operator bool() const", .function
        ),
        row(
            "_ZNK3geo5ShapeltERKS0_", "geo::Shape::operator<(geo::Shape const&) const", "geo::Shape",
            "operator<(geo::Shape const&) const", .function),
        row("_ZNK3geo6Circle4areaEi", "geo::Circle::area(int) const", "geo::Circle", "area(int) const", .function),
        row(
            "_ZZNK4Gate4passERKiENKUliE_clEi", "Gate::pass(int const&) const::{lambda(int)#1}::operator()(int) const",
            "Gate::pass(int const&) const", "{lambda(int)#1}::operator()(int) const", .function),
        row("_ZNR3geo5ShapeclEi", "geo::Shape::operator()(int) &", "geo::Shape", "operator()(int) &", .function),
        row(
            "_ZNV3geo12_GLOBAL__N_16Hidden1fEv", "geo::(anonymous namespace)::Hidden::f() volatile",
            "geo::(anonymous namespace)::Hidden", "f() volatile", .function),
        row(
            "_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back(int const&)",
            "std::vector<int, std::allocator<int> >", "push_back(int const&)", .function),
        row(
            "_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc",
            "std::operator<< <std::char_traits<char> >(std::basic_ostream<char, std::char_traits<char> >&, char const*)",
            "std",
            "operator<< <std::char_traits<char> >(std::basic_ostream<char, std::char_traits<char> >&, char const*)",
            .function),
        row("_ZThn16_N1B1fEv", "B::f()", "B", "f()", .function),
        row("_ZTv0_n24_N1B1fEv", "B::f()", "B", "f()", .function),
        row(
            "_ZNKSt8functionIFvvEEclEv", "std::function<void ()>::operator()() const", "std::function<void ()>",
            "operator()() const", .function),
        row("_ZN1AcvT_IiEEv", "A::operator int<int>()", "A", "operator int<int>()", .function),
        row("_ZN1AnwEm", "A::operator new(unsigned long)", "A", "operator new(unsigned long)", .function),
        row("_ZN1A1xE", "A::x", nil, nil, .data),
        row("_ZNK1AptEv", "A::operator->() const", "A", "operator->() const", .function),
        row("_ZN1AltERKS_", "A::operator<(A const&)", "A", "operator<(A const&)", .function),
        row("_ZN1AlsEi", "A::operator<<(int)", "A", "operator<<(int)", .function),
        row("_ZN2ns9operatorsC2Ev", "ns::operators::operators()", "ns::operators", "operators()", .function),
        row(
            "_ZN5swift9RefCountsINS_13RefCountBitsTILNS_19RefCountInlinednessE1EEEE13incrementSlowES3_j",
            "swift::RefCounts::incrementSlow", "swift::RefCounts<swift::RefCountBitsT<(swift::RefCountInlinedness)1> >",
            "incrementSlow(swift::RefCountBitsT<(swift::RefCountInlinedness)1>, unsigned int)", .function),
        row("_ZdlPv", "operator delete(void*)", nil, nil, .function),
    ]

    #if compiler(>=6.2) // older demanglers do not know this entity
    static let newer = [
        row("$s4More2UICfZ", "UI.__isolated_deallocating_deinit", "UI", "deinit", .function)
    ]
    #else
    static let newer: [Row] = []
    #endif

    @Test(arguments: swift + newer) func swiftName(row: Row) { #expect(SymbolName(symbol: row.symbol) == row.name) }
    @Test(arguments: cxx) func cxxName(row: Row) { #expect(SymbolName(symbol: row.symbol) == row.name) }

    @Test(arguments: [
        ("_RNvC7mycrate3foo", "mycrate::foo"),
        ("_RNCNvNtCsjrHSEGnQ3l9_3std9panicking13panic_handler0B5_", "std::panicking::panic_handler::{closure#0}"),
        (
            "_RINvNtNtCsjrHSEGnQ3l9_3std3sys9backtrace26___rust_end_short_backtraceNCINvNtB6_9panicking11begin_panicReE0zEB6_",
            "std::sys::backtrace::__rust_end_short_backtrace"
        ),
        ("_RNvYNtC1a1bNtB4_1c1d", "<a::b as a::c>::d"),
        ("_RNvMC1aNtC1a1b1f.llvm.17", "<a::b>::f"),
        ("_ZN3own6panics17h8be3def6d96835aaE", "own::panics"),
        ("_ZN3own4main28_$u7b$$u7b$closure$u7d$$u7d$17h8be3def6d96835aaE", "own::main::{{closure}}"),
        // Truncated or invalid names.
        ("_RNvC7mycrate3fo", "_RNvC7mycrate3fo"), ("_RIC", "_RIC"), ("_RB_", "_RB_"), ("_RYRYRB_", "_RYRYRB_"),
        ("_RC1aC", "a"), ("_Read", "_Read"),
    ])
    func rust(symbol: String, expected: String) { #expect(readableName(symbol) == expected) }

    @Test(arguments: ["main", "", "$s", "_Z", "_ZN", "_RNvC6mycrate3foo", "$", "swift_retain"])
    func otherNamesStayAsTheyAre(symbol: String) {
        #expect(SymbolName(symbol: symbol) == SymbolName(readable: symbol, role: .function))
    }

    // The parser never traps, even if a demangler returns a truncated name.
    @Test func everyCutOfADemangledNameIsRead() {
        for row in Self.swift.prefix(60) {
            let plain = demangle(row.symbol)
            for length in 0...plain.count { _ = SwiftName.parse(String(plain.prefix(length))) }
        }
        for row in Self.cxx {
            let plain = demangle(row.symbol)
            for length in 0...plain.count { _ = CxxName.parse(String(plain.prefix(length))) }
        }
    }

    static let types: [(text: String, path: String)] = [
        ("Shop.Cart", "Cart"), ("Shop.Outer<Swift.Int>.Inner", "Outer.Inner"),
        ("Shop.Box<Swift.Array<Shop.Cart>>", "Box"),
        ("Shop.(Secret in _F49A18)", "Secret"), ("(extension in A):Shop.C<D>.E", "C.E"), ("Cart", "Cart"), ("", ""),
        ("closure context", "closure"),
    ]

    @Test(arguments: types) func pathOfAType(row: (text: String, path: String)) {
        #expect(SwiftTypeText.path(of: Substring(row.text)).joined(separator: ".") == row.path)
    }

    // MARK: Names that no compiler has written

    /// Each level names the level before it twice, so that the last one expands to 2^levels words.
    private static func doubled(levels: Int) -> (cxx: String, swift: String) {
        let digits = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        func number(_ value: Int) -> String {
            (value < digits.count ? "" : number(value / digits.count)) + String(digits[value % digits.count])
        }
        let cxx = (0..<levels).map { "S_IS\(number($0))_S\(number($0))_E" }.joined()
        let letters = Array("EFGHIJKLMNOPQRSTUVWXYZ")
        let swift = String(repeating: "ADy", count: levels) + "S2iG" + (0..<levels).map { "A\(letters[$0])G" }.joined()
        return ("_Z1f1aIiiE" + cxx, "$s1M1fyyAA1PVy" + swift + "F")
    }

    @Test func namesThatDoubleStayShort() {
        let (few, many) = (Self.doubled(levels: 5), Self.doubled(levels: 20))
        #expect(demangle(few.cxx).utf8.count > 500)
        #expect(demangle(few.swift).utf8.count > 500)
        #expect(demangle(many.cxx) == many.cxx)
        #expect(demangle(many.swift) == many.swift)
        // Numbers in substitutions: large indices and repeat counts.
        let times = "$s1M1fyyAA1PVyA2000_A2000_A2000_S2iGF"
        #expect(demangle(times) == times)
        let pack =
            "_Z1fIJ\(String(repeating: "i", count: 200))EEv" + String(repeating: "DpN1aI", count: 6) + "T_"
            + String(repeating: "EE", count: 6)
        #expect(demangle(pack).utf8.count < 1 << 22)
    }

    @Test func boundsAreNeverTooLow() {
        for row in Self.swift + Self.cxx {
            #expect(DemangledSize.bound(row.symbol) >= demangle(row.symbol).utf8.count, "\(row.symbol)")
            #expect(DemangledSize.bound(row.symbol) < 1 << 20, "\(row.symbol)")
        }
    }

    // Twenty functions nested in each other: the parser reads each outer name only once.
    @Test func namesInsideOfNamesEnd() {
        let local = "$s1M1gyyF" + String(repeating: "1hL_yyF", count: 20)
        #expect(SymbolName(symbol: local).readable.hasSuffix("h() in g()"))
        let deep = "$s1M1gyyF" + String(repeating: "1hL_yyF", count: 1000)
        #expect(SymbolName(symbol: deep).readable.hasPrefix("h() in h()"))
    }

    @Test func brackets() {
        #expect(SwiftTypeText.path(of: Substring(String(repeating: "(.", count: 200_000))).count > 0)
        let open = String(repeating: "(", count: 100_000)
        #expect(SwiftTypeText.short(open[...]) == open)
        #expect(withoutMangledEnd(String(repeating: "_ ", count: 100_000)).utf8.count == 200_000)
    }
}
