//! One suite, stamped over both databases, and over `PostgreSQL` behind a pooler in statement mode.

/// Tests for each way to a database of the laws named, which are functions of a world.
macro_rules! laws {
    ($($law:ident),* $(,)?) => {
        mod sqlite {
            use crate::world::World;

            $(#[tokio::test]
            async fn $law() {
                super::$law(World::sqlite().await).await;
            })*
        }

        mod postgres {
            use crate::world::World;

            $(#[tokio::test]
            async fn $law() {
                super::$law(World::postgres().await).await;
            })*
        }

        mod per_statement {
            use crate::world::World;

            $(#[tokio::test]
            async fn $law() {
                super::$law(World::per_statement().await).await;
            })*
        }
    };
}

mod audit;
mod feed;
mod migrations;
mod plans;
mod retention;
mod rules;
mod switches;
mod tenants;
mod tokens;
mod writers;
