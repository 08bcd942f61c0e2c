// Reads tables with Iceberg for Java, and says what it found: one JSON object a line.
//
//   java -cp CLASSES Check.java TABLE_DIRECTORY…      a `-` before it: only its metadata
//   java -cp CLASSES Check.java --uri=… [--PROPERTY=VALUE…] [-|+|=|!|>]NAMESPACE.TABLE… *
//
// The second way the tables are in a catalog, of REST if there is no `--catalog-impl`: `+` changes one
// after it was read, `=` reads a view, changes it and makes another of it, `!` makes a table and its
// namespace, `>FROM>TO` renames one, and `*` says what there is.
//
// Each has the table's location as `table`, and `what`: `metadata` (a metadata file as Java writes
// it again), the name of a metadata table, `rows` of the table, the data files that were `checked`,
// what is `wrong` with them, a `view`, the `names` in a catalog, or an `error`. Values are spelled as
// `rows.rs` does.

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.UUID;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.MetadataTableType;
import org.apache.iceberg.MetadataTableUtils;
import org.apache.iceberg.Metrics;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.catalog.ViewCatalog;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.InternalRecordWrapper;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetReaders;
import org.apache.iceberg.data.parquet.GenericParquetWriter;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.hadoop.HadoopTables;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.parquet.ParquetUtil;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.variants.Variant;
import org.apache.iceberg.view.BaseView;
import org.apache.iceberg.view.View;
import org.apache.iceberg.view.ViewMetadataParser;

public class Check {
  static final StringBuilder OUT = new StringBuilder();

  interface Work {
    List<String> rows() throws Exception;
  }

  public static void main(String[] args) throws Exception {
    HadoopTables tables = new HadoopTables(new Configuration());
    Map<String, String> properties = new TreeMap<>();
    List<String> names = new ArrayList<>();
    for (String arg : args) {
      if (arg.startsWith("--")) {
        String[] property = arg.substring(2).split("=", 2);
        properties.put(property[0], property[1]);
      } else {
        names.add(arg);
      }
    }
    Catalog catalog = null;
    boolean remote = !properties.isEmpty();
    if (remote) {
      String kind = properties.getOrDefault("catalog-impl", RESTCatalog.class.getName());
      catalog = CatalogUtil.loadCatalog(kind, "ice", properties, new Configuration());
    }
    for (String arg : names) {
      String name = arg.replaceFirst("^[-+=!>]", "");
      if (arg.equals("*")) {
        Map<String, String> found = new TreeMap<>();
        namespaces(catalog, Namespace.empty(), found);
        say("", "names", object(found));
        continue;
      } else if (arg.startsWith("=")) {
        view((ViewCatalog) catalog, TableIdentifier.parse(name));
        continue;
      } else if (arg.startsWith("!")) {
        create(catalog, TableIdentifier.parse(name));
        continue;
      } else if (arg.startsWith(">")) {
        String[] ends = name.split(">");
        catalog.renameTable(TableIdentifier.parse(ends[0]), TableIdentifier.parse(ends[1]));
        continue;
      }
      boolean readsFiles = !arg.startsWith("-");
      Table table = remote ? catalog.loadTable(TableIdentifier.parse(name)) : tables.load(name);
      String location = remote ? table.location() : name;
      try {
        metadataFiles(table, location);
      } catch (Exception e) {
        say(location, "error", quoted("metadata: " + trace(e)));
      }
      for (MetadataTableType type : MetadataTableType.values()) {
        if (type != MetadataTableType.POSITION_DELETES) {
          run(location, type.name().toLowerCase(), () -> metadataTable(table, type));
        }
      }
      if (readsFiles) {
        run(location, "rows", () -> rows(table));
        List<String> wrong = new ArrayList<>();
        run(location, "checked", () -> check(table, wrong));
        say(location, "wrong", "[" + String.join(",", wrong) + "]");
      }
      if (arg.startsWith("+")) {
        run(location, "changed", () -> change(table));
      }
    }
    System.out.write(OUT.toString().getBytes(StandardCharsets.UTF_8));
    System.out.flush();
  }

  static void run(String location, String what, Work work) {
    try {
      say(location, what, "[" + String.join(",", work.rows()) + "]");
    } catch (Throwable e) {
      say(location, "error", quoted(what + ": " + trace(e)));
    }
  }

  static String trace(Throwable e) {
    StringBuilder text = new StringBuilder();
    for (Throwable cause = e; cause != null; cause = cause.getCause()) {
      text.append(cause).append(" at ");
      Stream.of(cause.getStackTrace()).limit(6).forEach(at -> text.append(at).append("; "));
    }
    return text.toString();
  }

  static void say(String location, String what, String rows) {
    OUT.append("{\"table\":").append(quoted(location)).append(",\"what\":").append(quoted(what));
    OUT.append(",\"rows\":").append(rows).append("}\n");
  }

  static void metadataFiles(Table table, String location) throws Exception {
    Path directory = Path.of(location.replaceFirst("^file:/*", "/"), "metadata");
    try (Stream<Path> files = Files.list(directory)) {
      for (Path file : files.filter(f -> f.toString().endsWith(".metadata.json")).toList()) {
        String json = TableMetadataParser.toJson(TableMetadataParser.read(table.io(), file.toString()));
        OUT.append("{\"table\":").append(quoted(location)).append(",\"what\":\"metadata\",\"file\":");
        OUT.append(quoted(file.toString())).append(",\"json\":").append(quoted(json)).append("}\n");
      }
    }
  }

  /**
   * Adds a row to a table without partitions: one that is there, with another id and a column of
   * Java's. Then changes metadata, several at once too.
   */
  static List<String> change(Table table) throws Exception {
    table.updateSchema().addColumn("by_java", Types.IntegerType.get()).commit();
    Record row = GenericRecord.create(table.schema());
    try (CloseableIterable<Record> records = IcebergGenerics.read(table).build()) {
      Record first = records.iterator().next();
      table.schema().columns().forEach(column -> row.setField(column.name(), first.getField(column.name())));
    }
    row.setField("id", 9000L);
    row.setField("by_java", 7);
    append(table, row);
    long snapshot = table.currentSnapshot().snapshotId();
    table.manageSnapshots().createTag("by_java", snapshot).createBranch("java", snapshot).commit();
    Transaction transaction = table.newTransaction();
    transaction.updateProperties().set("by", "java").commit();
    transaction.updateSpec().addField(Expressions.bucket("id", 4)).commit();
    transaction.replaceSortOrder().asc("id").commit();
    transaction.commitTransaction();
    return List.of();
  }

  static void append(Table table, Record row) throws Exception {
    String name = "by_java-" + UUID.randomUUID() + ".parquet";
    OutputFile file = table.io().newOutputFile(table.locationProvider().newDataLocation(name));
    DataWriter<Record> writer =
        Parquet.writeData(file)
            .forTable(table)
            .withSpec(table.spec())
            .createWriterFunc(GenericParquetWriter::create)
            .build();
    try (writer) {
      writer.write(row);
    }
    table.newAppend().appendFile(writer.toDataFile()).commit();
  }

  /** Makes a table of a row, and its namespace with a property. */
  static void create(Catalog catalog, TableIdentifier name) throws Exception {
    ((SupportsNamespaces) catalog).createNamespace(name.namespace(), Map.of("by", "java"));
    Schema schema =
        new Schema(
            Types.NestedField.required(1, "id", Types.LongType.get()),
            Types.NestedField.optional(2, "text", Types.StringType.get()));
    Table table = catalog.buildTable(name, schema).withProperty("format-version", "3").create();
    Record row = GenericRecord.create(table.schema());
    row.setField("id", 1L);
    row.setField("text", "ü");
    append(table, row);
  }

  /** Finds the namespaces below one, with what they hold. */
  static void namespaces(Catalog catalog, Namespace parent, Map<String, String> found) {
    SupportsNamespaces namespaces = (SupportsNamespaces) catalog;
    for (Namespace namespace : namespaces.listNamespaces(parent)) {
      Map<String, String> properties = new TreeMap<>();
      namespaces
          .loadNamespaceMetadata(namespace)
          .forEach((property, value) -> properties.put(property, quoted(value)));
      String views;
      try {
        views = list(((ViewCatalog) catalog).listViews(namespace));
      } catch (UnsupportedOperationException e) {
        views = "null";
      }
      String tables = list(catalog.listTables(namespace));
      Map<String, String> all = Map.of("properties", object(properties), "tables", tables, "views", views);
      found.put(namespace.toString(), object(all));
      namespaces(catalog, namespace, found);
    }
  }

  static String list(List<TableIdentifier> names) {
    List<String> list = new ArrayList<>();
    names.stream().map(TableIdentifier::name).sorted().forEach(name -> list.add(quoted(name)));
    return "[" + String.join(",", list) + "]";
  }

  static String object(Map<String, String> members) {
    List<String> list = new ArrayList<>();
    members.forEach((name, value) -> list.add(quoted(name) + ":" + value));
    return "{" + String.join(",", list) + "}";
  }

  static void view(ViewCatalog catalog, TableIdentifier name) {
    View view = catalog.loadView(name);
    String json = ViewMetadataParser.toJson(((BaseView) view).operations().current());
    say(name.toString(), "view", quoted(json));
    view.replaceVersion()
        .withSchema(view.schema())
        .withDefaultNamespace(name.namespace())
        .withQuery("spark", "SELECT 'by Java'")
        .withQuery("datafusion", "SELECT 'by Java'")
        .commit();
    view.updateProperties().set("by", "java").commit();
    catalog
        .buildView(TableIdentifier.of(name.namespace(), name.name() + "_java"))
        .withSchema(view.schema())
        .withDefaultNamespace(name.namespace())
        .withQuery("spark", "SELECT 1")
        .withProperty("by", "java")
        .create();
  }

  static List<String> metadataTable(Table table, MetadataTableType type) throws Exception {
    Table metadata = MetadataTableUtils.createMetadataTableInstance(table, type);
    List<String> rows = new ArrayList<>();
    try (CloseableIterable<FileScanTask> tasks = metadata.newScan().planFiles()) {
      for (FileScanTask task : tasks) {
        try (CloseableIterable<StructLike> found = task.asDataTask().rows()) {
          found.forEach(row -> rows.add(json(row, metadata.schema().asStruct())));
        }
      }
    }
    return rows;
  }

  static List<String> rows(Table table) throws Exception {
    List<String> rows = new ArrayList<>();
    try (CloseableIterable<Record> records = IcebergGenerics.read(table).build()) {
      records.forEach(record -> rows.add(json(record, table.schema().asStruct())));
    }
    return rows;
  }

  /** Compares the manifests' partitions and metrics with what Java makes of the files. */
  static List<String> check(Table table, List<String> wrong) throws Exception {
    List<String> checked = new ArrayList<>();
    MetricsConfig config = MetricsConfig.forTable(table);
    try (CloseableIterable<FileScanTask> tasks = table.newScan().includeColumnStats().planFiles()) {
      for (FileScanTask task : tasks) {
        DataFile file = task.file();
        String path = file.location();
        checked.add("{\"file\":" + quoted(path) + "}");
        Metrics metrics = ParquetUtil.fileMetrics(table.io().newInputFile(path), config);
        compare(wrong, path, "record count", file.recordCount(), metrics.recordCount());
        compare(wrong, path, "column sizes", file.columnSizes(), own(metrics.columnSizes()));
        compare(wrong, path, "value counts", single(table, file.valueCounts()), own(metrics.valueCounts()));
        compare(wrong, path, "null counts", single(table, file.nullValueCounts()), own(metrics.nullValueCounts()));
        compare(wrong, path, "lower bounds", bounds(table, file.lowerBounds()), bounds(table, own(metrics.lowerBounds())));
        compare(wrong, path, "upper bounds", bounds(table, file.upperBounds()), bounds(table, own(metrics.upperBounds())));
        partition(table, file, wrong);
      }
    }
    return checked;
  }

  /** Without the columns of row lineage. */
  static <T> Map<Integer, T> own(Map<Integer, T> metrics) {
    Map<Integer, T> own = metrics == null ? new TreeMap<>() : new TreeMap<>(metrics);
    own.keySet().removeIf(id -> id > Integer.MAX_VALUE - 1000);
    return own;
  }

  /** Without fields in lists and maps, of which Java keeps no counts. */
  static Map<Integer, Long> single(Table table, Map<Integer, Long> counts) {
    if (counts == null) {
      return null;
    }
    Map<Integer, Long> single = new TreeMap<>(counts);
    for (Schema schema : table.schemas().values()) {
      Map<Integer, Integer> parents = TypeUtil.indexParents(schema.asStruct());
      single.keySet().removeIf(
          id -> {
            for (Integer parent = parents.get(id); parent != null; parent = parents.get(parent)) {
              if (!schema.findField(parent).type().isStructType()) {
                return true;
              }
            }
            return false;
          });
    }
    return single;
  }

  /** Footers have no sign of zeros. */
  static Map<Integer, String> bounds(Table table, Map<Integer, ByteBuffer> bounds) {
    Map<Integer, String> text = new TreeMap<>();
    if (bounds != null) {
      for (Map.Entry<Integer, ByteBuffer> bound : bounds.entrySet()) {
        boolean isFloat =
            table.schemas().values().stream()
                .map(schema -> schema.findType(bound.getKey()))
                .anyMatch(type -> type == Types.FloatType.get() || type == Types.DoubleType.get());
        String hex = hex(bound.getValue());
        text.put(bound.getKey(), isFloat && hex.matches("0*80") ? hex.replace('8', '0') : hex);
      }
    }
    return text;
  }

  static void partition(Table table, DataFile file, List<String> wrong) throws Exception {
    PartitionSpec spec = table.specs().get(file.specId());
    Schema schema = table.schema();
    try (CloseableIterable<Record> records =
        Parquet.read(table.io().newInputFile(file.location()))
            .project(schema)
            .createReaderFunc(fileSchema -> GenericParquetReaders.buildReader(schema, fileSchema))
            .build()) {
      for (Record record : records) {
        StructLike row = new InternalRecordWrapper(schema.asStruct()).wrap(record);
        for (int i = 0; i < spec.fields().size(); i++) {
          PartitionField field = spec.fields().get(i);
          if (schema.findField(field.sourceId()) == null) {
            continue;
          }
          Type type = schema.findField(field.sourceId()).type();
          Object value =
              type.typeId() == Type.TypeID.TIMESTAMP_NANO
                  // Which the wrapper does not know.
                  ? nanos(record.getField(schema.findColumnName(field.sourceId())))
                  : schema.accessorForField(field.sourceId()).get(row);
          @SuppressWarnings("unchecked")
          Object expected =
              ((org.apache.iceberg.transforms.Transform<Object, Object>) field.transform()).bind(type).apply(value);
          Type result = field.transform().getResultType(type);
          String found = json(file.partition().get(i, Object.class), result);
          compare(wrong, file.location(), "partition " + field.name(), found, json(expected, result));
        }
      }
    }
  }

  static Long nanos(Object value) {
    return value == null ? null : Long.valueOf(timestamp(value, 1));
  }

  static void compare(List<String> wrong, String file, String what, Object ours, Object java) {
    if (!Objects.equals(ours == null ? Map.of() : sorted(ours), java == null ? Map.of() : sorted(java))) {
      wrong.add(
          String.format(
              "{\"file\":%s,\"what\":%s,\"manifest\":%s,\"java\":%s}",
              quoted(file), quoted(what), quoted(sorted(ours) + ""), quoted(sorted(java) + "")));
    }
  }

  static Object sorted(Object value) {
    if (value instanceof Map<?, ?> map) {
      TreeMap<Object, Object> sorted = new TreeMap<>();
      sorted.putAll(map);
      return sorted;
    }
    return value;
  }

  // Values.

  static String json(Object value, Type type) {
    if (value == null) {
      return "null";
    }
    switch (type.typeId()) {
      case STRUCT:
        List<String> members = new ArrayList<>();
        List<Types.NestedField> fields = type.asStructType().fields();
        for (int i = 0; i < fields.size(); i++) {
          Object member = ((StructLike) value).get(i, Object.class);
          members.add(quoted(fields.get(i).name()) + ":" + json(member, fields.get(i).type()));
        }
        return "{" + String.join(",", members) + "}";
      case LIST:
        List<String> elements = new ArrayList<>();
        ((Collection<?>) value).forEach(e -> elements.add(json(e, type.asListType().elementType())));
        return "[" + String.join(",", elements) + "]";
      case MAP:
        List<String> pairs = new ArrayList<>();
        Types.MapType map = type.asMapType();
        ((Map<?, ?>) value)
            .forEach((k, v) -> pairs.add("[" + json(k, map.keyType()) + "," + json(v, map.valueType()) + "]"));
        // In the order of the text that serde_json makes of them, which is without spaces too.
        pairs.sort(java.util.Comparator.naturalOrder());
        return "[" + String.join(",", pairs) + "]";
      case FLOAT:
        return number(((Float) value).doubleValue());
      case DOUBLE:
        return number((Double) value);
      case DECIMAL:
        return quoted(((BigDecimal) value).toPlainString());
      case DATE:
        long day = value instanceof LocalDate date ? date.toEpochDay() : (Integer) value;
        return quoted("date " + day);
      case TIME:
        long nanos = value instanceof LocalTime time ? time.toNanoOfDay() : (Long) value * 1000;
        return quoted("time " + nanos);
      case TIMESTAMP:
      case TIMESTAMP_NANO:
        long scale = type.typeId() == Type.TypeID.TIMESTAMP ? 1000 : 1;
        return quoted("timestamp " + timestamp(value, scale));
      case UUID:
        return quoted(((UUID) value).toString().replace("-", ""));
      case FIXED:
      case BINARY:
        return quoted(hex(value instanceof byte[] bytes ? ByteBuffer.wrap(bytes) : (ByteBuffer) value));
      case VARIANT:
        Variant variant = (Variant) value;
        ByteBuffer metadata = ByteBuffer.allocate(variant.metadata().sizeInBytes()).order(ByteOrder.LITTLE_ENDIAN);
        variant.metadata().writeTo(metadata, 0);
        ByteBuffer contents = ByteBuffer.allocate(variant.value().sizeInBytes()).order(ByteOrder.LITTLE_ENDIAN);
        variant.value().writeTo(contents, 0);
        return "{\"metadata\":" + quoted(hex(metadata)) + ",\"value\":" + quoted(hex(contents)) + "}";
      case STRING:
        String text = value.toString().replaceFirst("^file:/+", "/");
        return quoted(text.matches("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}") ? text.replace("-", "") : text);
      default:
        return value.toString();
    }
  }

  static String timestamp(Object value, long scale) {
    LocalDateTime local =
        value instanceof OffsetDateTime offset
            ? offset.withOffsetSameInstant(ZoneOffset.UTC).toLocalDateTime()
            : value instanceof LocalDateTime given ? given : null;
    BigDecimal nanos =
        local == null
            ? BigDecimal.valueOf((Long) value).multiply(BigDecimal.valueOf(scale))
            : BigDecimal.valueOf(local.toEpochSecond(ZoneOffset.UTC))
                .multiply(BigDecimal.valueOf(1_000_000_000))
                .add(BigDecimal.valueOf(local.getNano()));
    return nanos.toPlainString();
  }

  static String number(double value) {
    if (Double.isNaN(value) || Double.isInfinite(value)) {
      return quoted(String.valueOf(value));
    }
    return String.valueOf(value);
  }

  static String hex(ByteBuffer bytes) {
    StringBuilder text = new StringBuilder();
    for (int i = bytes.position(); i < bytes.limit(); i++) {
      text.append(String.format("%02x", bytes.get(i)));
    }
    return text.toString();
  }

  static String quoted(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      if (c == '"' || c == '\\') {
        quoted.append('\\').append(c);
      } else if (c < 0x20) {
        quoted.append(String.format("\\u%04x", (int) c));
      } else {
        quoted.append(c);
      }
    }
    return quoted.append('"').toString();
  }
}
