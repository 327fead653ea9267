//! How plans, batches and metrics travel.
