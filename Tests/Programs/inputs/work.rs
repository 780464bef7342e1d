use std::collections::{BTreeMap, HashMap};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;

trait Shape { fn area(&self) -> u64; }
struct Square(u64);
struct Box2(u64, u64);
impl Shape for Square { fn area(&self) -> u64 { self.0 * self.0 } }
impl Shape for Box2 { fn area(&self) -> u64 { self.0 * self.1 } }

fn total<T: Into<u64> + Copy>(values: &[T]) -> u64 { values.iter().map(|v| (*v).into()).sum() }

fn main() {
    let shapes: Vec<Box<dyn Shape>> = (0..5000u64).map(|i| if i % 2 == 0 { Box::new(Square(i)) as Box<dyn Shape> } else { Box::new(Box2(i, 3)) }).collect();
    println!("{}", shapes.iter().map(|s| s.area()).sum::<u64>());
    let mut words: HashMap<String, Vec<usize>> = HashMap::new();
    for i in 0..50000usize { words.entry(format!("key{}", i * 7919 % 997)).or_default().push(i); }
    let sorted: BTreeMap<_, _> = words.iter().map(|(k, v)| (k.clone(), v.len())).collect();
    println!("{:?}", sorted.iter().take(3).collect::<Vec<_>>());
    let (sender, receiver) = mpsc::channel();
    let shared = Arc::new(Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..4u64).map(|n| { let (sender, shared) = (sender.clone(), shared.clone()); thread::spawn(move || {
        for i in 0..2000u64 { sender.send(n * i).unwrap(); if i % 100 == 0 { shared.lock().unwrap().push(vec![n; i as usize]); } }
    }) }).collect();
    drop(sender);
    println!("{}", receiver.iter().sum::<u64>());
    for t in threads { t.join().unwrap(); }
    println!("{} {}", shared.lock().unwrap().iter().map(Vec::len).sum::<usize>(), total(&[1u8, 2, 3]));
    let caught = std::panic::catch_unwind(|| { let v: Vec<u32> = Vec::new(); v[std::env::args().count()] });
    println!("{}", caught.is_err());
    std::process::exit(3);
}
