//! Registers tables by the files that lie in a folder.

use std::path::{Path, PathBuf};

use datafusion::common::{Result, TableReference, exec_datafusion_err};
use datafusion::prelude::{ParquetReadOptions, SessionContext};

/// Tables in `dir`, by name: each `name.parquet`, be it a file or a folder of Parquet files, and
/// each other folder under its own name. Names that start with a dot are not tables.
pub fn find(dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    let unreadable = |error| exec_datafusion_err!("no tables in {}: {error}", dir.display());
    let mut tables = vec![];
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let parquet = path
            .extension()
            .is_some_and(|extension| extension == "parquet");
        let name = if parquet {
            path.file_stem()
        } else {
            path.file_name()
        };
        let name = name.and_then(|name| name.to_str()).unwrap_or_default();
        if (parquet || path.is_dir()) && !name.is_empty() && !name.starts_with('.') {
            tables.push((name.to_string(), path));
        }
    }
    tables.sort();
    Ok(tables)
}

/// Registers every table that [`find`] finds in `dir`, and returns their names.
pub async fn register(ctx: &SessionContext, dir: &Path) -> Result<Vec<String>> {
    let mut names = vec![];
    for (name, path) in find(dir)? {
        // Bare: a file name is taken as it is, neither folded to lower case nor cut at a dot.
        register_parquet(ctx, TableReference::bare(name.clone()), &path).await?;
        names.push(name);
    }
    if names.is_empty() {
        return Err(exec_datafusion_err!(
            "{} holds no .parquet file and no folder",
            dir.display()
        ));
    }
    Ok(names)
}

/// Registers one Parquet file, or a folder of them, as a table.
pub async fn register_parquet(
    ctx: &SessionContext,
    name: impl Into<TableReference>,
    path: &Path,
) -> Result<()> {
    let path = path
        .to_str()
        .ok_or_else(|| exec_datafusion_err!("{} is not a UTF-8 path", path.display()))?;
    ctx.register_parquet(name, path, ParquetReadOptions::default())
        .await
}
