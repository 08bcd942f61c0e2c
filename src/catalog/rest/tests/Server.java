// A server of the REST protocol over the handlers and the catalog of Iceberg for Java.
//
//   java -cp CLASSES Server.java      prints its port, and stops when its standard input ends
//
// It has two catalogs, by the names of their warehouses. `open` is also what is there without a name,
// and Iceberg for Java knows it by heart. `guarded` needs tokens, has a prefix, another separator of
// namespaces and keys of idempotency, breaks lists into pages, and gives tokens for tables. A client
// `CLIENT:hunter2` is given tokens that live for an hour, but 4 seconds if it is called `brief`.
// `GET /reports` shows the metrics that were reported, as Java writes them again.

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.BaseTransaction;
import org.apache.iceberg.MetadataUpdate.UpgradeFormatVersion;
import org.apache.iceberg.Schema;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.UpdateRequirement.AssertTableDoesNotExist;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.exceptions.NamespaceNotEmptyException;
import org.apache.iceberg.exceptions.NoSuchIcebergTableException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.NoSuchViewException;
import org.apache.iceberg.exceptions.NotAuthorizedException;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.exceptions.UnprocessableEntityException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.rest.CatalogHandlers;
import org.apache.iceberg.rest.Endpoint;
import org.apache.iceberg.rest.RESTSerializers;
import org.apache.iceberg.rest.RESTUtil;
import org.apache.iceberg.rest.requests.CommitTransactionRequest;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.CreateViewRequest;
import org.apache.iceberg.rest.requests.RegisterTableRequest;
import org.apache.iceberg.rest.requests.RenameTableRequest;
import org.apache.iceberg.rest.requests.ReportMetricsRequest;
import org.apache.iceberg.rest.requests.UpdateNamespacePropertiesRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.rest.responses.LoadTableResponse;
import org.apache.iceberg.rest.responses.OAuthTokenResponse;
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.JsonAutoDetect.Visibility;
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.PropertyAccessor;
import org.apache.iceberg.shaded.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.DeserializationFeature;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.PropertyNamingStrategies;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ObjectNode;

public class Server {
  static final ObjectMapper MAPPER = new ObjectMapper();

  static {
    MAPPER.setVisibility(PropertyAccessor.FIELD, Visibility.ANY);
    MAPPER.configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    MAPPER.setPropertyNamingStrategy(new PropertyNamingStrategies.KebabCaseStrategy());
    RESTSerializers.registerAll(MAPPER);
  }

  static final List<Endpoint> ENDPOINTS =
      List.of(
          Endpoint.V1_LIST_NAMESPACES,
          Endpoint.V1_LOAD_NAMESPACE,
          Endpoint.V1_NAMESPACE_EXISTS,
          Endpoint.V1_CREATE_NAMESPACE,
          Endpoint.V1_UPDATE_NAMESPACE,
          Endpoint.V1_DELETE_NAMESPACE,
          Endpoint.V1_COMMIT_TRANSACTION,
          Endpoint.V1_LIST_TABLES,
          Endpoint.V1_LOAD_TABLE,
          Endpoint.V1_TABLE_EXISTS,
          Endpoint.V1_CREATE_TABLE,
          Endpoint.V1_UPDATE_TABLE,
          Endpoint.V1_DELETE_TABLE,
          Endpoint.V1_RENAME_TABLE,
          Endpoint.V1_REGISTER_TABLE,
          Endpoint.V1_REPORT_METRICS,
          Endpoint.V1_LIST_VIEWS,
          Endpoint.V1_LOAD_VIEW,
          Endpoint.V1_VIEW_EXISTS,
          Endpoint.V1_CREATE_VIEW,
          Endpoint.V1_UPDATE_VIEW,
          Endpoint.V1_DELETE_VIEW,
          Endpoint.V1_RENAME_VIEW);

  static final Map<Class<?>, Integer> STATUSES =
      Map.ofEntries(
          Map.entry(IllegalArgumentException.class, 400),
          Map.entry(ValidationException.class, 400),
          Map.entry(NotAuthorizedException.class, 401),
          Map.entry(ForbiddenException.class, 403),
          Map.entry(NoSuchNamespaceException.class, 404),
          Map.entry(NoSuchTableException.class, 404),
          Map.entry(NoSuchIcebergTableException.class, 404),
          Map.entry(NoSuchViewException.class, 404),
          Map.entry(NotFoundException.class, 404),
          Map.entry(UnsupportedOperationException.class, 406),
          Map.entry(AlreadyExistsException.class, 409),
          Map.entry(NamespaceNotEmptyException.class, 409),
          Map.entry(CommitFailedException.class, 409),
          Map.entry(UnprocessableEntityException.class, 422),
          Map.entry(CommitStateUnknownException.class, 500));

  record Reply(int status, String body, String etag) {
    static final Reply DONE = new Reply(204, null, null);
  }

  record Token(long lifetimeMs, long expiresAt) {}

  record Warehouse(
      boolean guarded, String prefix, String separator, InMemoryCatalog catalog, ReadWriteLock lock) {
    static Warehouse in(Path directory, boolean guarded) throws Exception {
      InMemoryCatalog catalog = new InMemoryCatalog();
      String name = guarded ? "guarded" : "open";
      catalog.initialize(name, Map.of("warehouse", "file://" + directory.resolve(name)));
      // Files are to lie where clients find them; plain ones, without files of checksums.
      Configuration files = new Configuration();
      files.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem");
      Field io = InMemoryCatalog.class.getDeclaredField("io");
      io.setAccessible(true);
      io.set(catalog, new HadoopFileIO(files));
      String prefix = guarded ? "guarded/main/" : "";
      String separator = guarded ? "|" : "\u001f";
      return new Warehouse(guarded, prefix, separator, catalog, new ReentrantReadWriteLock());
    }

    Namespace namespace(String text) {
      return Namespace.of(text.split(java.util.regex.Pattern.quote(separator), -1));
    }
  }

  final Warehouse open;
  final Warehouse guarded;
  final Map<String, Token> tokens = new ConcurrentHashMap<>();
  final Map<String, Reply> replies = new ConcurrentHashMap<>();
  final List<ReportMetricsRequest> reports = new CopyOnWriteArrayList<>();

  Server(Path directory) throws Exception {
    open = Warehouse.in(directory, false);
    guarded = Warehouse.in(directory, true);
  }

  public static void main(String[] args) throws Exception {
    Path directory = Files.createTempDirectory("iceberg-rest");
    try {
      Server server = new Server(directory);
      HttpServer http = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 64);
      http.setExecutor(Executors.newCachedThreadPool());
      http.createContext("/", server::serve);
      http.start();
      System.out.println(http.getAddress().getPort());
      while (System.in.read() >= 0) {}
      http.stop(1);
      try (Stream<Path> files = Files.walk(directory)) {
        files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
      }
    } finally {
      // Whatever still runs.
      Runtime.getRuntime().halt(0);
    }
  }

  void serve(HttpExchange exchange) throws IOException {
    try (exchange) {
      byte[] body = exchange.getRequestBody().readAllBytes();
      Reply reply;
      try {
        reply = answer(exchange, new String(body, StandardCharsets.UTF_8));
      } catch (JsonProcessingException e) {
        reply = error(400, "BadRequestException", e);
      } catch (Throwable e) {
        reply = error(STATUSES.getOrDefault(e.getClass(), 500), e.getClass().getSimpleName(), e);
      }
      if (reply.etag != null) {
        exchange.getResponseHeaders().set("ETag", reply.etag);
      }
      if (reply.body == null || exchange.getRequestMethod().equals("HEAD")) {
        exchange.sendResponseHeaders(reply.status, -1);
      } else {
        byte[] bytes = reply.body.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(reply.status, bytes.length);
        exchange.getResponseBody().write(bytes);
      }
    } catch (Throwable e) {
      e.printStackTrace();
      throw e;
    }
  }

  static Reply error(int status, String type, Throwable e) {
    ErrorResponse.Builder error = ErrorResponse.builder().responseCode(status).withType(type);
    if (status == 500) {
      e.printStackTrace();
    }
    try {
      return new Reply(
          status,
          MAPPER.writeValueAsString(error.withMessage(String.valueOf(e.getMessage())).withStackTrace(e).build()),
          null);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  static Reply json(Object value) throws JsonProcessingException {
    return new Reply(200, MAPPER.writeValueAsString(value), null);
  }

  Reply answer(HttpExchange exchange, String body) throws Exception {
    String method = exchange.getRequestMethod();
    String path = exchange.getRequestURI().getRawPath();
    String rawQuery = exchange.getRequestURI().getRawQuery();
    Map<String, String> query =
        rawQuery == null || rawQuery.isEmpty() ? Map.of() : RESTUtil.decodeFormData(rawQuery);
    if (path.equals("/reports")) {
      return json(reports);
    }
    if (!path.startsWith("/v1/")) {
      throw new IllegalArgumentException("No route for request: " + method + " " + path);
    }
    String resource = path.substring(4);
    if (resource.equals("oauth/tokens")) {
      return token(RESTUtil.decodeFormData(body), exchange);
    }
    Warehouse warehouse = resource.startsWith(guarded.prefix) ? guarded : open;
    if (resource.equals("config")) {
      warehouse =
          switch (query.getOrDefault("warehouse", "open")) {
            case "open" -> open;
            case "guarded" -> guarded;
            default -> throw new NotFoundException("Warehouse not found: %s", query.get("warehouse"));
          };
    }
    if (warehouse.guarded) {
      Token token = tokens.get(bearer(exchange));
      if (token == null) {
        throw new NotAuthorizedException("Not authorized: no token, or an unknown one");
      }
      if (token.expiresAt < System.currentTimeMillis()) {
        return error(419, "AuthenticationTimeoutException", new RuntimeException("The token has expired"));
      }
    }
    if (resource.equals("config")) {
      return config(warehouse);
    }
    String[] parts = resource.substring(warehouse.prefix.length()).split("/", -1);
    List<String> values = new ArrayList<>();
    for (int i = 1; i < Math.min(parts.length, 4) && parts[0].equals("namespaces"); i += 2) {
      values.add(RESTUtil.decodeString(parts[i]));
      parts[i] = "*";
    }
    String route = method + " " + String.join("/", parts);
    String key = warehouse.guarded ? exchange.getRequestHeaders().getFirst("Idempotency-Key") : null;
    if (key == null) {
      return locked(warehouse, route, values, query, exchange, body);
    }
    UUID.fromString(key);
    synchronized (key.intern()) {
      Reply reply = replies.get(key);
      if (reply == null) {
        try {
          reply = locked(warehouse, route, values, query, exchange, body);
        } catch (RuntimeException e) {
          int status = STATUSES.getOrDefault(e.getClass(), 500);
          if (status >= 500) {
            throw e;
          }
          reply = error(status, e.getClass().getSimpleName(), e);
        }
        replies.put(key, reply);
      }
      return reply;
    }
  }

  /** Only a commit to several tables needs that nothing else happens. */
  Reply locked(
      Warehouse warehouse,
      String route,
      List<String> values,
      Map<String, String> query,
      HttpExchange exchange,
      String body)
      throws Exception {
    boolean alone = route.equals("POST transactions/commit");
    var lock = alone ? warehouse.lock.writeLock() : warehouse.lock.readLock();
    lock.lock();
    try {
      return handle(warehouse, route, values, query, exchange, body);
    } finally {
      lock.unlock();
    }
  }

  Reply handle(
      Warehouse warehouse,
      String route,
      List<String> values,
      Map<String, String> query,
      HttpExchange exchange,
      String body)
      throws Exception {
    InMemoryCatalog catalog = warehouse.catalog;
    Namespace namespace = values.isEmpty() ? null : warehouse.namespace(values.get(0));
    TableIdentifier name = values.size() < 2 ? null : TableIdentifier.of(namespace, values.get(1));
    String page = query.get("pageToken");
    // Who names a token knows pages, whose length is up to the server then.
    String size = query.getOrDefault("pageSize", page != null && warehouse.guarded ? "5" : null);
    switch (route) {
      case "GET namespaces":
        String in = query.get("parent");
        Namespace parent = in == null || in.isEmpty() ? Namespace.empty() : warehouse.namespace(in);
        return json(
            size == null
                ? CatalogHandlers.listNamespaces(catalog, parent)
                : CatalogHandlers.listNamespaces(catalog, parent, page, size));
      case "POST namespaces":
        return json(CatalogHandlers.createNamespace(catalog, read(body, CreateNamespaceRequest.class)));
      case "GET namespaces/*":
        return json(CatalogHandlers.loadNamespace(catalog, namespace));
      case "HEAD namespaces/*":
        CatalogHandlers.namespaceExists(catalog, namespace);
        return Reply.DONE;
      case "DELETE namespaces/*":
        // The catalog does not look for them before 1.11.
        if (!catalog.listNamespaces(namespace).isEmpty()) {
          throw new NamespaceNotEmptyException("Namespace %s has others in it", namespace);
        }
        CatalogHandlers.dropNamespace(catalog, namespace);
        return Reply.DONE;
      case "POST namespaces/*/properties":
        var changes = read(body, UpdateNamespacePropertiesRequest.class);
        return json(CatalogHandlers.updateNamespaceProperties(catalog, namespace, changes));
      case "GET namespaces/*/tables":
        return json(
            size == null
                ? CatalogHandlers.listTables(catalog, namespace)
                : CatalogHandlers.listTables(catalog, namespace, page, size));
      case "POST namespaces/*/tables":
        CreateTableRequest creation = read(body, CreateTableRequest.class);
        // The handler of staged ones does not ask.
        CatalogHandlers.namespaceExists(catalog, namespace);
        return creation.stageCreate()
            ? table(warehouse, CatalogHandlers.stageTableCreate(catalog, namespace, creation), "all")
            : table(warehouse, CatalogHandlers.createTable(catalog, namespace, creation), "all");
      case "POST namespaces/*/register":
        var registration = read(body, RegisterTableRequest.class);
        return table(warehouse, CatalogHandlers.registerTable(catalog, namespace, registration), "all");
      case "GET namespaces/*/tables/*":
        String snapshots = query.getOrDefault("snapshots", "all");
        Reply loaded = table(warehouse, load(catalog, name, snapshots), snapshots);
        String known = exchange.getRequestHeaders().getFirst("If-None-Match");
        return loaded.etag.equals(known) ? new Reply(304, null, known) : loaded;
      case "HEAD namespaces/*/tables/*":
        CatalogHandlers.tableExists(catalog, name);
        return Reply.DONE;
      case "POST namespaces/*/tables/*":
        LoadTableResponse after =
            CatalogHandlers.updateTable(catalog, name, read(body, UpdateTableRequest.class));
        return new Reply(200, json(after).body, etag(after, "all"));
      case "DELETE namespaces/*/tables/*":
        if (query.getOrDefault("purgeRequested", "false").equalsIgnoreCase("true")) {
          CatalogHandlers.purgeTable(catalog, name);
        } else {
          CatalogHandlers.dropTable(catalog, name);
        }
        return Reply.DONE;
      case "POST namespaces/*/tables/*/metrics":
        ReportMetricsRequest report = read(body, ReportMetricsRequest.class);
        report.validate();
        CatalogHandlers.tableExists(catalog, name);
        reports.add(report);
        return Reply.DONE;
      case "POST tables/rename":
        CatalogHandlers.renameTable(catalog, read(body, RenameTableRequest.class));
        return Reply.DONE;
      case "POST transactions/commit":
        commitAll(catalog, read(body, CommitTransactionRequest.class));
        return Reply.DONE;
      case "GET namespaces/*/views":
        return json(
            size == null
                ? CatalogHandlers.listViews(catalog, namespace)
                : CatalogHandlers.listViews(catalog, namespace, page, size));
      case "POST namespaces/*/views":
        return json(CatalogHandlers.createView(catalog, namespace, read(body, CreateViewRequest.class)));
      case "GET namespaces/*/views/*":
        return json(CatalogHandlers.loadView(catalog, name));
      case "HEAD namespaces/*/views/*":
        CatalogHandlers.viewExists(catalog, name);
        return Reply.DONE;
      case "POST namespaces/*/views/*":
        return json(CatalogHandlers.updateView(catalog, name, read(body, UpdateTableRequest.class)));
      case "DELETE namespaces/*/views/*":
        CatalogHandlers.dropView(catalog, name);
        return Reply.DONE;
      case "POST views/rename":
        CatalogHandlers.renameView(catalog, read(body, RenameTableRequest.class));
        return Reply.DONE;
      default:
        throw new IllegalArgumentException("No route for request: " + route);
    }
  }

  static LoadTableResponse load(InMemoryCatalog catalog, TableIdentifier name, String snapshots) {
    LoadTableResponse loaded = CatalogHandlers.loadTable(catalog, name);
    if (!snapshots.equals("refs")) {
      return loaded;
    }
    TableMetadata.Builder some =
        TableMetadata.buildFrom(loaded.tableMetadata())
            .withMetadataLocation(loaded.metadataLocation())
            .suppressHistoricalSnapshots();
    return LoadTableResponse.builder().withTableMetadata(some.build()).build();
  }

  /** What is answered with a table. A staged one has no version that could be asked for. */
  Reply table(Warehouse warehouse, LoadTableResponse response, String snapshots) throws Exception {
    ObjectNode json = MAPPER.valueToTree(response);
    if (warehouse.guarded) {
      json.putObject("config").put("token", issue(3_600_000).getKey());
    }
    return new Reply(200, MAPPER.writeValueAsString(json), etag(response, snapshots));
  }

  static String etag(LoadTableResponse response, String snapshots) {
    String location = response.metadataLocation();
    return location == null ? null : "\"" + UUID.nameUUIDFromBytes((location + snapshots).getBytes()) + "\"";
  }

  /** All changes or none: nothing is written before all of them fit, and nothing else commits. */
  static void commitAll(InMemoryCatalog catalog, CommitTransactionRequest request) {
    request.validate();
    Map<TableIdentifier, Runnable> commits = new LinkedHashMap<>();
    for (UpdateTableRequest change : request.tableChanges()) {
      TableIdentifier name = change.identifier();
      boolean creates = change.requirements().stream().anyMatch(AssertTableDoesNotExist.class::isInstance);
      TableOperations operations =
          creates
              ? ((BaseTransaction) catalog.buildTable(name, new Schema()).createOrReplaceTransaction())
                  .underlyingOps()
              : ((BaseTable) catalog.loadTable(name)).operations();
      TableMetadata base = operations.current();
      change.requirements().forEach(requirement -> requirement.validate(base));
      TableMetadata.Builder builder = creates ? empty(change) : TableMetadata.buildFrom(base);
      change.updates().forEach(update -> update.applyTo(builder));
      TableMetadata changed = builder.build();
      Runnable commit =
          () -> {
            if (creates || !changed.changes().isEmpty()) {
              operations.commit(base, changed);
            }
          };
      if (commits.put(name, commit) != null) {
        throw new ValidationException("Several changes of the table %s", name);
      }
    }
    commits.values().forEach(Runnable::run);
  }

  static TableMetadata.Builder empty(UpdateTableRequest change) {
    return change.updates().stream()
        .filter(UpgradeFormatVersion.class::isInstance)
        .map(update -> TableMetadata.buildFromEmpty(((UpgradeFormatVersion) update).formatVersion()))
        .findFirst()
        .orElseGet(TableMetadata::buildFromEmpty);
  }

  static Reply config(Warehouse warehouse) throws JsonProcessingException {
    ConfigResponse.Builder config = ConfigResponse.builder().withEndpoints(ENDPOINTS);
    if (warehouse.guarded) {
      config.withOverride("prefix", warehouse.prefix.replaceAll("/$", ""));
      config.withOverride("namespace-separator", RESTUtil.encodeString(warehouse.separator));
    }
    ObjectNode json = MAPPER.valueToTree(config.build());
    if (warehouse.guarded) {
      json.put("idempotency-key-lifetime", "PT30M");
    }
    return json(json);
  }

  static String bearer(HttpExchange exchange) {
    String header = exchange.getRequestHeaders().getFirst("Authorization");
    return header == null ? "" : header.replaceFirst("(?i)^Bearer ", "");
  }

  Map.Entry<String, Token> issue(long lifetimeMs) {
    Token token = new Token(lifetimeMs, System.currentTimeMillis() + lifetimeMs);
    String value = UUID.randomUUID().toString();
    tokens.put(value, token);
    return Map.entry(value, token);
  }

  /** The two ways to get a token: with a secret, or with a token that is good. */
  Reply token(Map<String, String> form, HttpExchange exchange) throws JsonProcessingException {
    Map.Entry<String, Token> issued;
    switch (form.getOrDefault("grant_type", "")) {
      case "client_credentials":
        if (!form.getOrDefault("client_secret", "").equals("hunter2")) {
          return refused(401, "invalid_client", "Wrong client or secret");
        }
        issued = issue(form.getOrDefault("client_id", "").equals("brief") ? 4_000 : 3_600_000);
        break;
      case "urn:ietf:params:oauth:grant-type:token-exchange":
        for (String token :
            Arrays.asList(bearer(exchange), form.get("subject_token"), form.get("actor_token"))) {
          Token given = token == null ? null : tokens.get(token);
          if (token != null && (given == null || given.expiresAt < System.currentTimeMillis())) {
            return refused(400, "invalid_grant", "A token that is unknown or has expired");
          }
        }
        // What was exchanged is of no use any more.
        Token subject = tokens.remove(form.getOrDefault("subject_token", ""));
        if (subject == null) {
          return refused(400, "invalid_request", "No subject_token");
        }
        issued = issue(subject.lifetimeMs);
        break;
      default:
        return refused(400, "unsupported_grant_type", "Unknown: " + form.get("grant_type"));
    }
    return json(
        OAuthTokenResponse.builder()
            .withToken(issued.getKey())
            .withTokenType("bearer")
            .withIssuedTokenType("urn:ietf:params:oauth:token-type:access_token")
            .setExpirationInSeconds((int) (issued.getValue().lifetimeMs / 1000))
            .build());
  }

  static Reply refused(int status, String error, String description) throws JsonProcessingException {
    return new Reply(
        status,
        MAPPER.writeValueAsString(Map.of("error", error, "error_description", description)),
        null);
  }

  static <T> T read(String body, Class<T> type) throws JsonProcessingException {
    return MAPPER.readValue(body, type);
  }
}
