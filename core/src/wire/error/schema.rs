//! Errors about columns: each is a list of columns. Where they stood in the SQL does not travel.

use datafusion::common::error::GenericError;
use datafusion::common::{Column, SchemaError, TableReference};

use super::layer::Layer;

pub(super) fn describe(error: &SchemaError) -> Layer {
    match error {
        SchemaError::AmbiguousReference { field } => {
            column(Layer::new("SchemaError::AmbiguousReference"), field)
        }
        SchemaError::DuplicateQualifiedField { qualifier, name } => column(
            Layer::new("SchemaError::DuplicateQualifiedField"),
            &Column::new(Some(qualifier.as_ref().clone()), name),
        ),
        SchemaError::DuplicateUnqualifiedField { name } => column(
            Layer::new("SchemaError::DuplicateUnqualifiedField"),
            &Column::new_unqualified(name),
        ),
        SchemaError::FieldNotFound {
            field,
            valid_fields,
        } => {
            let missing = column(Layer::new("SchemaError::FieldNotFound"), field);
            valid_fields.iter().fold(missing, column)
        }
    }
}

/// Adds a column: the parts of its name, outermost first, and how many they are.
fn column(layer: Layer, column: &Column) -> Layer {
    let parts = match &column.relation {
        None => vec![],
        Some(TableReference::Bare { table }) => vec![table],
        Some(TableReference::Partial { schema, table }) => vec![schema, table],
        Some(TableReference::Full {
            catalog,
            schema,
            table,
        }) => vec![catalog, schema, table],
    };
    let layer = layer.number(parts.len() as u64 + 1);
    let layer = parts
        .into_iter()
        .fold(layer, |layer, part| layer.text(part.as_ref()));
    layer.text(&column.name)
}

pub(super) fn build(variant: &str, layer: Layer, source: Option<GenericError>) -> GenericError {
    let mut columns = columns(&layer).into_iter();
    let Some(first) = columns.next() else {
        return layer.opaque(source);
    };
    let field = Box::new(first);
    Box::new(match (variant, &field.relation) {
        ("AmbiguousReference", _) => SchemaError::AmbiguousReference { field },
        ("DuplicateQualifiedField", Some(qualifier)) => SchemaError::DuplicateQualifiedField {
            qualifier: Box::new(qualifier.clone()),
            name: field.name,
        },
        ("DuplicateUnqualifiedField", _) => {
            SchemaError::DuplicateUnqualifiedField { name: field.name }
        }
        ("FieldNotFound", _) => SchemaError::FieldNotFound {
            field,
            valid_fields: columns.collect(),
        },
        _ => return layer.opaque(source),
    })
}

fn columns(layer: &Layer) -> Vec<Column> {
    let mut texts = layer.texts.iter().map(String::as_str);
    let mut columns = Vec::new();
    for count in &layer.numbers {
        let count = usize::try_from(*count).unwrap_or(usize::MAX);
        let relation: Vec<_> = texts.by_ref().take(count.saturating_sub(1)).collect();
        let Some(name) = texts.next() else { break };
        let relation = match relation[..] {
            [table] => Some(TableReference::bare(table)),
            [schema, table] => Some(TableReference::partial(schema, table)),
            [catalog, schema, table] => Some(TableReference::full(catalog, schema, table)),
            _ => None,
        };
        columns.push(Column::new(relation, name));
    }
    columns
}
