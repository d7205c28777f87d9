//! The fuzzer: libFuzzer around the target that `WINIMG_FUZZ` names (`fuzz/run.sh` sets it); `seeds` makes
//! what they start from.
//!
//! One program holds all targets, so that there is one to link.
#![no_main]

mod seeds;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use winimg_fuzz::Target;

static TARGET: OnceLock<&'static Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        let name = std::env::var("WINIMG_FUZZ").unwrap_or_default();
        if name == "seeds" {
            seeds::make();
            std::process::exit(0);
        }
        let Some(target) = winimg_fuzz::target(&name) else {
            let names: Vec<&str> = winimg_fuzz::TARGETS.iter().map(|t| t.name).collect();
            eprintln!("WINIMG_FUZZ names no target: one of {}", names.join(" "));
            std::process::exit(2);
        };
        TARGET.get_or_init(|| target);
    },
    |bytes: &[u8]| {
        if let Some(target) = TARGET.get() {
            (target.run)(bytes);
        }
    }
);

/// Foreign bytes of a few KiB must not make winimg ask for more than this. Memory that is asked for and never touched
/// does not show in the resident size that libFuzzer watches, so it is counted here.
const MOST: usize = 384 << 20;

struct Counted(AtomicUsize);

#[global_allocator]
static ALLOCATOR: Counted = Counted(AtomicUsize::new(0));

impl Counted {
    fn add(&self, bytes: usize) {
        if self.0.fetch_add(bytes, Relaxed) + bytes > MOST {
            // What is printed may need memory, too.
            self.0.store(0, Relaxed);
            eprintln!("out of memory: {bytes} bytes more are asked for, {MOST} in all are allowed");
            std::process::abort();
        }
    }

    fn less(&self, bytes: usize) {
        let _ = self
            .0
            .fetch_update(Relaxed, Relaxed, |n| Some(n.saturating_sub(bytes)));
    }
}

// SAFETY: every call goes to the system's allocator with the layout that came in.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        self.less(layout.size());
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.add(size);
        self.less(layout.size());
        unsafe { System.realloc(at, layout, size) }
    }
}
