mod code;
mod learned;
mod shares;
mod state;
pub use code::RateCode;
