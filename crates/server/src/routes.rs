//! The route list, the layers around it, and the OpenAPI document that follows from it.
//!
//! A route exists only by being named here; every one but those of [`open`] needs a token.

mod algorithm;
mod auth;
mod board;
mod chart;
mod container;
mod datapack;
mod dataset;
mod doctor;
mod evaluation;
mod fault;
mod health;
mod injection;
mod kill_switch;
mod otel;
mod project;
mod run;
mod seed;
mod setting;
mod stream;
mod submit;
mod system;
mod task;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::get;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Info, OpenApi, SecurityRequirement};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::reply::{after_panic, no_such_method, no_such_route, seal};

/// Largest body of a request, in bytes: a seed of three files of the largest size.
pub const LARGEST_BODY: usize = 16 * 1024 * 1024;

/// Routes that answer without a token: they name nothing that is not public, or give a token to who proves a right to it.
fn open() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(health::health))
        .routes(routes!(health::ready))
        .routes(routes!(auth::login))
        .routes(routes!(auth::login_by_key))
        .routes(routes!(auth::refresh))
}

fn closed() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(auth::profile))
        .routes(routes!(auth::keys, auth::make_key))
        .routes(routes!(auth::revoke_key))
        .routes(routes!(auth::users))
        .routes(routes!(auth::set_password))
        .routes(routes!(health::status))
        .routes(routes!(doctor::doctor))
        .routes(routes!(health::release_lease))
        .routes(routes!(system::list))
        .routes(routes!(system::register))
        .routes(routes!(system::registrable))
        .routes(routes!(system::show, system::update, system::unregister))
        .routes(routes!(system::versions))
        .routes(routes!(system::set_version))
        .routes(routes!(chart::keep))
        .routes(routes!(chart::unused, chart::prune))
        .routes(routes!(chart::list, chart::attach))
        .routes(routes!(chart::verify))
        .routes(routes!(chart::install))
        .routes(routes!(chart::releases))
        .routes(routes!(chart::helm, chart::set_helm))
        .routes(routes!(seed::plan))
        .routes(routes!(seed::charts))
        .routes(routes!(seed::apply))
        .routes(routes!(seed::history))
        .routes(routes!(seed::show))
        .routes(routes!(seed::drift))
        .routes(routes!(seed::watched))
        .routes(routes!(seed::proof))
        .routes(routes!(seed::restart_slots))
        .routes(routes!(seed::export))
        .routes(routes!(setting::list))
        .routes(routes!(setting::status))
        .routes(routes!(setting::changes))
        .routes(routes!(setting::tree))
        .routes(routes!(setting::adopt))
        .routes(routes!(setting::restore))
        .routes(routes!(setting::discard))
        .routes(routes!(setting::show, setting::set))
        .routes(routes!(setting::history))
        .routes(routes!(setting::roll_back))
        .routes(routes!(otel::check))
        .routes(routes!(otel::render))
        .routes(routes!(fault::points))
        .routes(routes!(fault::point))
        .routes(routes!(fault::capabilities))
        .routes(routes!(fault::capability))
        .routes(routes!(kill_switch::show, kill_switch::set))
        .routes(routes!(submit::submit))
        .routes(routes!(run::list))
        .routes(routes!(run::show))
        .routes(routes!(run::why))
        .routes(routes!(run::cancel))
        .routes(routes!(run::retry))
        .routes(routes!(stream::stream))
        .routes(routes!(task::list))
        .routes(routes!(task::show))
        .routes(routes!(task::logs))
        .routes(routes!(injection::list))
        .routes(routes!(injection::show))
        .routes(routes!(injection::search))
        .routes(routes!(injection::label))
        .routes(routes!(injection::files))
        .routes(routes!(injection::file))
        .routes(routes!(injection::archive))
        .routes(routes!(injection::verify))
        .routes(routes!(datapack::query))
        .routes(routes!(datapack::export))
        .routes(routes!(datapack::diff))
        .routes(routes!(datapack::diagnose))
        .routes(routes!(datapack::convert))
        .routes(routes!(algorithm::algorithms, algorithm::add))
        .routes(routes!(algorithm::algorithm))
        .routes(routes!(algorithm::test))
        .routes(routes!(algorithm::executions))
        .routes(routes!(algorithm::execution))
        .routes(routes!(algorithm::upload_ranking))
        .routes(routes!(algorithm::upload_detection))
        .routes(routes!(algorithm::label))
        .routes(routes!(project::execute_anywhere))
        .routes(routes!(project::list, project::create))
        .routes(routes!(project::show))
        .routes(routes!(project::injections))
        .routes(routes!(project::search))
        .routes(routes!(project::inject))
        .routes(routes!(project::executions))
        .routes(routes!(project::execute))
        .routes(routes!(container::list))
        .routes(routes!(container::show))
        .routes(routes!(evaluation::list, evaluation::create))
        .routes(routes!(evaluation::compare))
        .routes(routes!(evaluation::datapacks))
        .routes(routes!(evaluation::datasets))
        .routes(routes!(evaluation::show))
        .routes(routes!(evaluation::cancel))
        .routes(routes!(dataset::list, dataset::create))
        .routes(routes!(dataset::show))
        .routes(routes!(dataset::versions))
        .routes(routes!(dataset::manifest))
        .routes(routes!(dataset::verify))
        .routes(routes!(dataset::download))
        .routes(routes!(dataset::download_version))
        .routes(routes!(board::board))
        .routes(routes!(board::export))
}

/// The document that `contracts/openapi.json` holds.
pub fn openapi() -> OpenApi {
    let token = SecurityRequirement::new("token", Vec::<String>::new());
    let (_, mut closed) = OpenApiRouter::new().nest(api::PREFIX, closed()).split_for_parts();
    for item in closed.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        for operation in operations.into_iter().flatten() {
            operation.security = Some(vec![token.clone()]);
        }
    }
    let (_, open) = OpenApiRouter::new().nest(api::PREFIX, open()).split_for_parts();
    closed.merge(open);
    closed.info = Info::new("Aegis", env!("CARGO_PKG_VERSION"));
    closed.info.description = Some(
        "Every JSON response is an envelope `{code, message, data, timestamp}`; an error has its HTTP status and a \
         problem object in `data`."
            .to_owned(),
    );
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    closed.components.get_or_insert_default().add_security_scheme("token", scheme);
    closed
}

/// Everything that the server answers.
pub fn router(app: App) -> Router {
    let document = get(|| async { axum::Json(openapi()) });
    let closed: Router<App> = Router::from(closed()).route("/openapi.json", document);
    let open: Router<App> = open().into();
    let guarded = closed.route_layer(middleware::from_fn_with_state(app.clone(), crate::auth::guard));
    Router::new()
        .nest(api::PREFIX, open.merge(guarded))
        // Where older clients look for it.
        .route("/system/health", get(health::health))
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .layer(CatchPanicLayer::custom(after_panic))
        .layer(middleware::from_fn(seal))
        .with_state(app)
}
