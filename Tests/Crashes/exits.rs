// Rust programs that end by an exit status, one per function, for Tests/Detection/panics.py. The line before a function
// is `// ends: STATUS, MESSAGE, FUNCTION OF THE STACK` for a panic, or `// quiet: STATUS` where nothing may be found.

use std::process::{exit, ExitCode};

// ends: 101, panicked at .*out of cheese 17, panics
fn panics() -> ExitCode {
    panic!("out of cheese {}", 17)
}

// ends: 101, called `Option::unwrap\(\)` on a `None` value, unwraps
fn unwraps() -> ExitCode {
    std::env::args().nth(9).unwrap();
    ExitCode::SUCCESS
}

// ends: 101, called `Result::unwrap\(\)` on an `Err` value, joins
fn joins() -> ExitCode {
    std::thread::spawn(|| panic!("out of cheese")).join().unwrap()
}

// ends: 101, panicked at .*out of cheese, resumes
fn resumes() -> ExitCode {
    let end = std::thread::spawn(|| panic!("out of cheese")).join();
    std::panic::resume_unwind(end.unwrap_err())
}

// ends: 101, panicked at .*the second, after_another
fn after_another() -> ExitCode {
    let _ = std::panic::catch_unwind(|| panic!("the first"));
    panic!("the second")
}

// quiet: 101
fn caught() -> ExitCode {
    let _ = std::panic::catch_unwind(|| panic!("out of cheese"));
    eprintln!("giving up");
    ExitCode::from(101)
}

// quiet: 101
fn caught_exit() -> ExitCode {
    let _ = std::panic::catch_unwind(|| panic!("out of cheese"));
    exit(101)
}

// quiet: 1
fn caught_error() -> ExitCode {
    let _ = std::panic::catch_unwind(|| panic!("out of cheese"));
    ExitCode::FAILURE
}

// quiet: 101
fn words() -> ExitCode {
    eprintln!("thread 'main' panicked at 'out of cheese', shop.rs:1:1");
    ExitCode::from(101)
}

// quiet: 101
fn in_thread() -> ExitCode {
    let _ = std::thread::spawn(|| panic!("out of cheese")).join();
    ExitCode::from(101)
}

// quiet: 0
fn goes_on() -> ExitCode {
    let _ = std::panic::catch_unwind(|| panic!("out of cheese"));
    ExitCode::SUCCESS
}

fn main() -> ExitCode {
    match std::env::args().nth(1).unwrap().as_str() {
        "panics" => panics(),
        "unwraps" => unwraps(),
        "joins" => joins(),
        "resumes" => resumes(),
        "after_another" => after_another(),
        "caught" => caught(),
        "caught_exit" => caught_exit(),
        "caught_error" => caught_error(),
        "words" => words(),
        "in_thread" => in_thread(),
        _ => goes_on(),
    }
}
