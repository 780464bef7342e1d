// epoll loop in Rust that locks a Mutex while another thread holds it for 0.9 s.
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

extern "C" {
    fn epoll_create1(flags: i32) -> i32;
    fn epoll_wait(poll: i32, events: *mut u8, most: i32, longest: i32) -> i32;
}

fn wait_for_events(poll: i32) {
    let mut events = [0u8; 128];
    unsafe { epoll_wait(poll, events.as_mut_ptr(), 8, 20) };
}

#[inline(never)]
fn take_turn(state: &Mutex<u64>) -> u64 {
    let mut state = state.lock().unwrap();
    *state += 1;
    *state
}

#[inline(never)]
fn hold(state: &Mutex<u64>) {
    let mut state = state.lock().unwrap();
    *state += 10;
    thread::sleep(Duration::from_millis(900));
}

fn main() {
    let poll = unsafe { epoll_create1(0) };
    let state = Arc::new(Mutex::new(0u64));
    for _ in 0..4 {
        wait_for_events(poll);
        take_turn(&state);
    }
    let shared = state.clone();
    let holder = thread::Builder::new().name("holder".into()).spawn(move || hold(&shared)).unwrap();
    thread::sleep(Duration::from_millis(50));
    take_turn(&state);
    wait_for_events(poll);
    holder.join().unwrap();
    wait_for_events(poll);
}
