//! What workers have reserved from their memory pools.

use std::sync::{Arc, Weak};

use datafusion::execution::memory_pool::MemoryPool;
use opentelemetry::metrics::Meter;
use parking_lot::Mutex;

/// Pools that are observed, each once, as long as somebody else holds them.
#[derive(Clone, Debug, Default)]
pub(super) struct Pools(Arc<Mutex<Vec<Weak<dyn MemoryPool>>>>);

impl Pools {
    /// Pools whose sum `flightpath.memory.reserved` of this meter is.
    pub(super) fn observed(meter: &Meter) -> Self {
        let pools = Self::default();
        let observed = pools.clone();
        // The meter keeps what it has built.
        let _kept = meter
            .i64_observable_up_down_counter("flightpath.memory.reserved")
            .with_description("Memory that operators of workers have reserved")
            .with_unit("By")
            .with_callback(move |observer| {
                if let Some(bytes) = observed.reserved() {
                    observer.observe(bytes, &[]);
                }
            })
            .build();
        pools
    }

    pub(super) fn add(&self, pool: &Arc<dyn MemoryPool>) {
        let pool = Arc::downgrade(pool);
        let mut pools = self.0.lock();
        pools.retain(|known| known.strong_count() > 0);
        if !pools.iter().any(|known| known.ptr_eq(&pool)) {
            pools.push(pool);
        }
    }

    /// `None` where there was no worker.
    fn reserved(&self) -> Option<i64> {
        let pools = self.0.lock();
        let reserved = pools.iter().filter_map(Weak::upgrade);
        let bytes: usize = reserved.map(|pool| pool.reserved()).sum();
        (!pools.is_empty()).then(|| i64::try_from(bytes).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::execution::memory_pool::{MemoryConsumer, UnboundedMemoryPool};

    use super::*;

    fn pool_with(bytes: usize) -> (Arc<dyn MemoryPool>, impl Drop) {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let holder = MemoryConsumer::new("test").register(&pool);
        holder.grow(bytes);
        (pool, holder)
    }

    #[test]
    fn a_pool_of_several_workers_counts_once_and_as_long_as_it_lives() {
        let pools = Pools::default();
        assert_eq!(pools.reserved(), None);
        let (shared, _held) = pool_with(100);
        pools.add(&shared);
        pools.add(&shared);
        assert_eq!(pools.reserved(), Some(100));
        let (other, held) = pool_with(7);
        pools.add(&other);
        assert_eq!(pools.reserved(), Some(107));
        drop((other, held));
        assert_eq!(pools.reserved(), Some(100));
    }
}
