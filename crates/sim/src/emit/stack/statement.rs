//! Texts of SQL statements and names of the methods behind them, as the mappers of the services make them from tables.

use crate::rng::{join, name_key};

/// A statement: its text, and the method of the repository that sends it.
pub struct Statement {
    pub text: String,
    pub method: String,
}

/// Columns by which tables are searched, by a word in the table's name; each becomes a `where` and a finder.
const KEYS: [(&str, &[&str]); 22] = [
    ("orders", &["account_id", "travel_date", "train_number"]),
    ("station_food", &["station_name"]),
    ("train_food", &["trip_id"]),
    ("food_delivery", &["station_food_store_id"]),
    ("food", &["order_id"]),
    ("station", &["name"]),
    ("contacts", &["account_id"]),
    ("consign_record", &["account_id"]),
    ("consign_price", &["idx"]),
    ("price_config", &["route_id", "train_type"]),
    ("config", &["name"]),
    ("assurance", &["order_id"]),
    ("auth_user", &["username"]),
    ("user_roles", &["user_id"]),
    ("inside_payment", &["order_id"]),
    ("inside_money", &["user_id"]),
    ("payment", &["order_id"]),
    ("route", &["route_id"]),
    ("security", &["name"]),
    ("train_type", &["name"]),
    ("trip", &["start_station_name", "terminal_station_name"]),
    ("user", &["user_name"]),
];

/// Columns that a mapper lists, by a word in the table's name.
const COLUMNS: [(&str, &[&str]); 12] = [
    (
        "orders",
        &[
            "account_id",
            "bought_date",
            "coach_number",
            "contacts_name",
            "from_station",
            "price",
            "seat_class",
            "seat_number",
            "status",
            "to_station",
            "train_number",
            "travel_date",
            "travel_time",
        ],
    ),
    ("contacts", &["account_id", "document_number", "document_type", "name", "phone_number"]),
    (
        "consign",
        &[
            "account_id",
            "consignee",
            "from_place",
            "handle_date",
            "order_id",
            "phone",
            "target_date",
            "to_place",
            "weight",
        ],
    ),
    ("price", &["basic_price_rate", "first_class_price_rate", "route_id", "train_type"]),
    ("station_food", &["business_time", "delivery_fee", "station_name", "store_name", "telephone"]),
    ("station", &["name", "stay_time"]),
    (
        "trip",
        &["route_id", "start_station_name", "start_time", "stations_name", "terminal_station_name", "train_type_name"],
    ),
    ("train_type", &["average_speed", "confort_class", "economy_class", "name"]),
    ("route", &["end_station", "start_station"]),
    ("payment", &["order_id", "payment_price", "user_id"]),
    ("food", &["food_name", "food_type", "order_id", "price", "station_name", "store_name"]),
    ("user", &["document_num", "document_type", "email", "gender", "password", "user_name"]),
];

fn of<'a>(list: &[(&str, &'a [&'a str])], table: &str, otherwise: &'a [&'a str]) -> &'a [&'a str] {
    list.iter().find(|(word, _)| table.contains(word)).map_or(otherwise, |(_, columns)| columns)
}

/// Hibernate's alias: the letters that begin the words of the table's name, and numbers.
fn alias(table: &str) -> String {
    let initials: String = table.split('_').filter_map(|word| word.chars().next()).collect();
    format!("{initials}1_0")
}

/// Spring Data over Hibernate. What a handler looks for differs from operation to operation; `caller` tells them apart.
pub fn hibernate(verb: &str, table: &str, caller: &str) -> Statement {
    let alias = alias(table);
    let columns = of(&COLUMNS, table, &["name", "status", "value"]);
    let keys = of(&KEYS, table, &["id"]);
    let listed = |prefix: &str| columns.iter().map(|column| format!("{prefix}{column}")).collect::<Vec<_>>().join(",");
    let key = join(name_key(table), name_key(caller));
    match verb {
        "INSERT" => {
            let marks = vec!["?"; columns.len() + 1].join(",");
            Statement {
                text: format!("insert into {table} ({},id) values ({marks})", listed("")),
                method: "save".to_owned(),
            }
        }
        "UPDATE" => {
            let set = columns.iter().map(|column| format!("{column}=?")).collect::<Vec<_>>().join(",");
            Statement { text: format!("update {table} set {set} where id=?"), method: "save".to_owned() }
        }
        "DELETE" => Statement { text: format!("delete from {table} where id=?"), method: "deleteById".to_owned() },
        _ => match key % 4 {
            0 => {
                let text = format!(
                    "select {alias}.id,{} from {table} {alias} where {alias}.id=?",
                    listed(&format!("{alias}."))
                );
                Statement { text, method: "findById".to_owned() }
            }
            // A collection is fetched with a join over its owner.
            1 if table.contains("route_") || table.contains("list") || table.contains("roles") => {
                let owner = table.split('_').next().unwrap_or(table);
                let text = format!(
                    "select {alias}.{owner}_id,{alias}.{} from {owner} o1_0 join {table} {alias} on o1_0.id={alias}.{owner}_id where o1_0.id=?",
                    columns[0]
                );
                Statement { text, method: "findById".to_owned() }
            }
            1 if keys == ["name"] || keys == ["id"] => Statement {
                text: format!("select {alias}.id,{} from {table} {alias}", listed(&format!("{alias}."))),
                method: "findAll".to_owned(),
            },
            n => {
                let used = &keys[..keys.len().min(1 + (n as usize & 1) * 2)];
                let condition =
                    used.iter().map(|column| format!("{alias}.{column}=?")).collect::<Vec<_>>().join(" and ");
                let text = format!(
                    "select {alias}.id,{} from {table} {alias} where {condition}",
                    listed(&format!("{alias}."))
                );
                let method =
                    format!("findBy{}", used.iter().map(|column| pascal(column)).collect::<Vec<_>>().join("And"));
                Statement { text, method }
            }
        },
    }
}

/// `EclipseLink`'s style: upper-case names, columns in brackets.
pub fn eclipselink(verb: &str, table: &str) -> String {
    let columns = match table {
        "PERSISTENCECATEGORY" => "ID, DESCRIPTION, NAME",
        "PERSISTENCEPRODUCT" => "ID, DESCRIPTION, LISTPRICEINCENTS, NAME, CATEGORY_ID",
        "PERSISTENCEUSER" => "ID, EMAIL, PASSWORD, REALNAME, USERNAME",
        "PERSISTENCEORDER" => {
            "ID, ADDRESS1, ADDRESS2, ADDRESSNAME, CREDITCARDCOMPANY, ORDERTIME, TOTALPRICEINCENTS, USER_ID"
        }
        _ => "ID, QUANTITY, UNITPRICEINCENTS, ORDER_ID, PRODUCT_ID",
    };
    let condition = match table {
        "PERSISTENCEUSER" => "(USERNAME = ?)",
        "PERSISTENCEPRODUCT" => "(CATEGORY_ID = ?) LIMIT ?, ?",
        _ => "(ID = ?)",
    };
    match verb {
        "INSERT" => {
            let marks = vec!["?"; columns.split(',').count()].join(", ");
            format!("INSERT INTO {table} ({columns}) VALUES ({marks})")
        }
        "SELECT" if table == "PERSISTENCECATEGORY" => format!("SELECT {columns} FROM {table} LIMIT ?, ?"),
        "SELECT" => format!("SELECT {columns} FROM {table} WHERE {condition}"),
        "DELETE" => format!("DELETE FROM {table} WHERE (ID = ?)"),
        _ => format!("UPDATE {table} SET {} WHERE (ID = ?)", columns.replace(", ", " = ?, ") + " = ?"),
    }
}

/// Statements written by hand, with PostgreSQL's numbered parameters.
pub fn postgres(verb: &str, table: &str) -> String {
    match (verb, table) {
        ("SELECT", "catalog.products") => "\n\t\tSELECT id, name, description, picture, \n\t\t       price_currency_code, price_units, price_nanos, categories\n\t\tFROM catalog.products\n\t\tWHERE id = $1\n\t".to_owned(),
        ("SELECT", _) => format!("SELECT * FROM {table} WHERE id = $1"),
        ("INSERT", "accounting.order") => "INSERT INTO accounting.\"order\" (order_id) VALUES (@p0);".to_owned(),
        ("INSERT", "accounting.orderitem") => {
            "INSERT INTO accounting.orderitem (order_id, product_id, item_cost_currency_code, item_cost_nanos, item_cost_units, quantity) VALUES (@p1, @p2, @p3, @p4, @p5, @p6);".to_owned()
        }
        ("INSERT", _) => format!("INSERT INTO {table} (shipping_tracking_id, city, country, order_id, state, street_address, zip_code) VALUES (@p0, @p1, @p2, @p3, @p4, @p5, @p6);"),
        (_, "") => "SELECT 1".to_owned(),
        _ => format!("UPDATE {table} SET updated_at = now() WHERE id = $1"),
    }
}

/// `travel_date` becomes `TravelDate`.
pub fn pascal(name: &str) -> String {
    let upper = |word: &str| {
        let mut chars = word.chars();
        chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect::<String>()
    };
    name.split(['_', '-', '.']).map(upper).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_follow_their_mapper() {
        let by_caller: std::collections::BTreeSet<String> = (0..20)
            .map(|caller| hibernate("SELECT", "orders", &caller.to_string()))
            .map(|statement| {
                assert!(statement.text.contains("from orders o1_0"), "{}", statement.text);
                statement.method
            })
            .collect();
        assert!(
            by_caller.contains("findById") && by_caller.contains("findByAccountIdAndTravelDateAndTrainNumber"),
            "{by_caller:?}"
        );
        assert!(
            hibernate("INSERT", "station", "")
                .text
                .starts_with("insert into station (name,stay_time,id) values (?,?,?)")
        );
        assert_eq!(alias("food_delivery_order"), "fdo1_0");
        assert_eq!(eclipselink("SELECT", "PERSISTENCEUSER").matches('?').count(), 1);
    }
}
