//! Many nodes, one virtual clock, a reference model.
