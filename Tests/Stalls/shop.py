"""A Python event loop that computes in a function called by C code, or waits for a lock.
usage: shop.py computes|waits"""
import select
import sys
import threading
import time


class Cart:
    def __init__(self, items):
        self.items = items

    def total(self):
        end = time.thread_time() + 0.8
        total = 0
        while time.thread_time() < end:
            total += sum(
                price * count
                for price, count in self.items)
        return total


def größe(cart):
    return sorted([cart], key=lambda one: one.total())


def wait():
    poll = select.poll()
    for _ in range(3):
        poll.poll(20)


def take(lock):
    thread = threading.Thread(target=hold, args=(lock,))
    thread.start()
    time.sleep(0.1)
    with lock:
        thread.join()


def hold(lock):
    with lock:
        time.sleep(1.5)


wait()
if sys.argv[1] == "computes":
    größe(Cart([(1, 2), (3, 4)]))
else:
    take(threading.Lock())
wait()
