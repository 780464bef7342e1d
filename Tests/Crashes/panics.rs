// Rust programs that a panic ends by a signal, one per function, for Tests/Detection/panics.py. The lines before the
// functions have the format of ways.c.

struct PanicsAgain;
impl Drop for PanicsAgain {
    fn drop(&mut self) {
        panic!("while it cleans up");
    }
}

// dies: SIGABRT, crash, message=panicked at .*while it cleans up, top=drop
fn twice() {
    let _again = PanicsAgain;
    panic!("out of cheese");
}

// dies: SIGABRT, crash, message=^out of cheese$, threads=2, top=thread
fn thread() {
    let work = || {
        eprintln!("out of cheese");
        std::process::abort();
    };
    std::thread::Builder::new().name("worker".to_string()).spawn(work).unwrap().join().unwrap()
}

// dies: SIGABRT, stack-overflow, message=has overflowed its stack, top=deeper, fault=SIGSEGV
fn deep() {
    println!("{}", deeper(std::env::args().count() as u64));
}

#[allow(unconditional_recursion)]
fn deeper(n: u64) -> u64 {
    let numbers = [n; 64];
    deeper(n + 1) + numbers[(n % 64) as usize]
}

fn main() {
    match std::env::args().nth(1).unwrap().as_str() {
        "twice" => twice(),
        "thread" => thread(),
        _ => deep(),
    }
}
