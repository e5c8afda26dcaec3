//! Real namespaces, links and processes for tests, the demo and benchmarks.
