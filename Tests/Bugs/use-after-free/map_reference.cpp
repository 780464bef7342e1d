// A key is looked up in a deleted map.
// finding: use-after-free
// access: read
// block: size=48 state=quarantined
// stack-access: ~look_up
// stack-free: delete_prices
// stack-alloc: make_prices
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"
#include <map>

using Prices = std::map<long, long>;

FRAME Prices *make_prices() {
    Prices *prices = new Prices();
    HOLD(prices);
    return prices;
}

FRAME void delete_prices(Prices *prices) {
    delete prices;
    KEEP_FRAME();
}

FRAME bool look_up(const Prices &prices, long key) {
    bool found = prices.find(key) != prices.end();
    HOLD(&prices);
    return found;
}

int main() {
    Prices *prices = make_prices();
#ifndef FIXED
    delete_prices(prices);
#endif
    printf("%d\n", look_up(*prices, 3));
#ifdef FIXED
    delete_prices(prices);
#endif
}
