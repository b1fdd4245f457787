//! Laws of the service as Envoy sees it: a real Envoy in front of a real upstream, asking the real
//! binary.

mod abuse;
mod costs;
mod edge;
mod failure;
mod limits;
mod load;
mod restart;
mod upstream;
