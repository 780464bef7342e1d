// A setter is called on a deleted object.
// finding: write-after-free
// access: write
// block: size=48 offset=32 state=quarantined
// stack-access: - (the writer is gone)
// stack-free: delete_account
// stack-alloc: make_account
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0

#include "../bug.h"

class Account {
  public:
    FRAME void set_balance(double value) { balance = value; }

  private:
    long numbers[4] = {1, 2, 3, 4};
    double balance = 0;
    long currency = 5;
};

FRAME Account *make_account() {
    Account *account = new Account();
    HOLD(account);
    return account;
}

FRAME void delete_account(Account *account) {
    delete account;
    KEEP_FRAME();
}

int main() {
    Account *account = make_account();
#ifdef FIXED
    account->set_balance(12.25);
    delete_account(account);
#else
    delete_account(account);
    account->set_balance(12.25);
#endif
    puts("end");
}
