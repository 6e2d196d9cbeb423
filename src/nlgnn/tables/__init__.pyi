from .encoder import FeatureEncoder as FeatureEncoder
from .graph_files import read_graph_file as read_graph_file
from .read import TableGraph as TableGraph
from .read import read_graph as read_graph
from .table_files import read_table as read_table
from .values import Table as Table
from .values import stack_tables as stack_tables
